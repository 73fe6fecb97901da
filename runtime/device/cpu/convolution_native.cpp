// Convolutions by oneDNN's primitives.
//
// They read and write images as they are, channels last, or *blocked*: in the format that the
// library likes best, channels in groups of a vector's lanes. The kernel they want in a format of
// their own always, so it is reordered into the workspace (gradients: out of it) in every run, as
// it changes in every step; blocked images likewise. In bfloat16 so are all images that are
// multiplied, which rounds them.
#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "runtime/device/cpu/convolution_forms.h"
#include "runtime/device/cpu/dnnl_version.h"
#include "runtime/device/cpu/reordered_primitive.h"
#include "runtime/device/kernels/convolution.h"

namespace meshwork::cpu {

namespace {

using dnnl::memory;

/// What pads behind the input; negative if the last inputs are not looked at.
std::int64_t padding_after(const WindowDimension& at) {
  return (at.output - 1) * at.stride + (at.window - 1) * at.dilation + 1 - at.padding - at.input;
}

/// Whether oneDNN takes the padding as it is.
bool padding_is_plain(const ConvolutionShape& at) {
  const std::vector<WindowDimension> windows = dimensions_of(at);
  return std::all_of(windows.begin(), windows.end(), [](const WindowDimension& along) {
    return along.padding >= 0 && padding_after(along) > -along.stride;
  });
}

/// `before`, then what `pick` takes of each dimension.
template <class Pick>
memory::dims each(const std::vector<WindowDimension>& windows, memory::dims before,
                  const Pick& pick) {
  for (const WindowDimension& along : windows) before.push_back(std::invoke(pick, along));
  return before;
}

/// Of images with `dimensions` to slide over.
memory::format_tag channels_last(std::size_t dimensions) {
  return dimensions == 3 ? memory::format_tag::ndhwc : memory::format_tag::nhwc;
}

/// The operands as they lie in memory: (batch, channels, [planes,] rows, columns) in oneDNN's order
/// of dimensions, channels last in memory; the kernel as ([groups,] filters, channels, [planes,]
/// rows, columns).
struct Plain {
  memory::desc source, weights, bias, destination;
};

Plain plain_of(const ConvolutionShape& at, bool bias) {
  constexpr auto f32 = memory::data_type::f32;
  const std::vector<WindowDimension> windows = dimensions_of(at);
  const memory::format_tag last = channels_last(windows.size());
  const std::int64_t channels = at.channels / at.groups, filters = at.filters / at.groups;
  memory::dims lengths = each(windows, {filters, channels}, &WindowDimension::window);
  memory::dims strides(lengths.size());
  strides[0] = 1;
  strides[1] = at.filters;
  std::int64_t place = channels * at.filters;
  for (std::size_t d = lengths.size(); d-- > 2; place *= lengths[d]) strides[d] = place;
  if (at.groups > 1) {
    lengths.insert(lengths.begin(), at.groups);
    strides.insert(strides.begin(), filters);
  }
  return {memory::desc(each(windows, {at.batch, at.channels}, &WindowDimension::input), f32, last),
          memory::desc(lengths, f32, strides),
          bias ? memory::desc({at.filters}, f32, memory::format_tag::a) : memory::desc(),
          memory::desc(each(windows, {at.batch, at.filters}, &WindowDimension::output), f32, last)};
}

/// The same for oneDNN, with the kernel in whichever format it likes.
ConvolutionDescription description_of(const ConvolutionShape& at, const Plain& plain) {
  const memory::desc any(plain.weights.dims(), memory::data_type::f32, memory::format_tag::any);
  const std::vector<WindowDimension> windows = dimensions_of(at);
  return {.source = plain.source,
          .weights = any,
          .bias = plain.bias,
          .destination = plain.destination,
          .strides = each(windows, {}, &WindowDimension::stride),
          .dilations = each(windows, {}, [](const auto& along) { return along.dilation - 1; }),
          .padding_before = each(windows, {}, &WindowDimension::padding),
          .padding_after = each(windows, {}, padding_after)};
}

/// Whether oneDNN has code of its own, which is right, for what `description` describes.
template <class PrimitiveDescription>
bool is_native(const PrimitiveDescription& description, const ConvolutionShape& at) {
  const std::string_view name = description.impl_info_str();
  // Version 2.6.3 gives wrong gradients by the input for odd numbers of filters: it reads one more.
  if (name.starts_with("jit_bf16_1x1") && (at.channels % 2 != 0 || at.filters % 2 != 0)) {
    return false;
  }
  return name.find("ref") == name.npos && name.find("gemm") == name.npos;
}

/// What the three convolutions are made from. In bfloat16 the two that are multiplied have elements
/// of that type: `source` and `destination` are the images as such, and `..._sum` as results.
struct Setting {
  Setting(const ConvolutionShape& at, Precision precision, ImageFormat format, bool bias = false)
      : factor(precision == Precision::bfloat16 ? memory::data_type::bf16 : memory::data_type::f32),
        as_they_lie(channels_last(dimensions_of(at).size())),
        tag(format == ImageFormat::channels_last ? as_they_lie : memory::format_tag::any),
        plain(plain_of(at, bias)),
        source(plain.source.dims(), factor, tag),
        source_sum(plain.source.dims(), memory::data_type::f32, tag),
        destination(plain.destination.dims(), factor, tag),
        destination_sum(plain.destination.dims(), memory::data_type::f32, tag),
        description(description_of(at, plain)),
        forward(describe_convolution(engine, with(source, factor, destination_sum), attributes)) {}

  /// Whether a primitive takes images as they are although it need not: there is another for that.
  [[nodiscard]] bool is_superfluous(const memory::desc& image, const memory::desc& other) const {
    const auto lies_so = [this](const memory::desc& of) {
      return of == memory::desc(of.dims(), of.data_type(), as_they_lie);
    };
    return tag == memory::format_tag::any && lies_so(image) && lies_so(other);
  }

  /// The description with images and a kernel of these types.
  [[nodiscard]] ConvolutionDescription with(const memory::desc& of_source,
                                            memory::data_type of_kernel,
                                            const memory::desc& of_destination) const {
    ConvolutionDescription typed = description;
    typed.source = of_source;
    typed.weights = memory::desc(plain.weights.dims(), of_kernel, memory::format_tag::any);
    typed.destination = of_destination;
    return typed;
  }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::primitive_attr attributes = with_user_scratchpad();
  memory::data_type factor;
  memory::format_tag as_they_lie, tag;  // of images
  Plain plain;
  memory::desc source, source_sum, destination, destination_sum;
  ConvolutionDescription description;
  dnnl::convolution_forward::primitive_desc forward;
};

}  // namespace

KernelPointer compile_native(const ConvolutionSpec& spec, ImageFormat format) {
  if (!padding_is_plain(spec.at)) return nullptr;
  const Setting set(spec.at, spec.precision, format, spec.bias);
  const memory::desc source = set.forward.src_desc(), destination = set.forward.dst_desc();
  if (!is_native(set.forward, spec.at) || set.is_superfluous(source, destination)) return nullptr;
  std::vector<ReorderedPrimitive::Argument> arguments{
      {DNNL_ARG_SRC, set.plain.source, source},
      {DNNL_ARG_WEIGHTS, set.plain.weights, set.forward.weights_desc()}};
  if (spec.bias) arguments.push_back({DNNL_ARG_BIAS, set.plain.bias, set.plain.bias});
  arguments.push_back({DNNL_ARG_DST, set.plain.destination, destination, true});
  return std::make_unique<ReorderedPrimitive>(spec.text(), set.engine,
                                              dnnl::convolution_forward(set.forward), arguments,
                                              set.forward.scratchpad_desc());
}

KernelPointer compile_native(const ConvolutionInputGradientSpec& spec, ImageFormat format) {
  if (!padding_is_plain(spec.at)) return nullptr;
  const Setting set(spec.at, spec.precision, format);
  const auto gradient = describe_convolution_gradient<dnnl::convolution_backward_data>(
      set.engine, set.with(set.source_sum, set.factor, set.destination), set.attributes,
      set.forward);
  const memory::desc source = gradient.diff_src_desc(), destination = gradient.diff_dst_desc();
  if (!is_native(gradient, spec.at) || set.is_superfluous(source, destination)) return nullptr;
  const std::vector<ReorderedPrimitive::Argument> arguments{
      {DNNL_ARG_DIFF_DST, set.plain.destination, destination},
      {DNNL_ARG_WEIGHTS, set.plain.weights, gradient.weights_desc()},
      {DNNL_ARG_DIFF_SRC, set.plain.source, source, true}};
  return std::make_unique<ReorderedPrimitive>(spec.text(), set.engine,
                                              dnnl::convolution_backward_data(gradient), arguments,
                                              gradient.scratchpad_desc());
}

KernelPointer compile_native(const ConvolutionKernelGradientSpec& spec, ImageFormat format) {
  if (!padding_is_plain(spec.at)) return nullptr;
  const Setting set(spec.at, spec.precision, format);
  const auto gradient = describe_convolution_gradient<dnnl::convolution_backward_weights>(
      set.engine, set.with(set.source, memory::data_type::f32, set.destination), set.attributes,
      set.forward);
  const memory::desc source = gradient.src_desc(), destination = gradient.diff_dst_desc();
  if (!is_native(gradient, spec.at) || set.is_superfluous(source, destination)) return nullptr;
  const std::vector<ReorderedPrimitive::Argument> arguments{
      {DNNL_ARG_SRC, set.plain.source, source},
      {DNNL_ARG_DIFF_DST, set.plain.destination, destination},
      {DNNL_ARG_DIFF_WEIGHTS, set.plain.weights, gradient.diff_weights_desc(), true}};
  return std::make_unique<ReorderedPrimitive>(spec.text(), set.engine,
                                              dnnl::convolution_backward_weights(gradient),
                                              arguments, gradient.scratchpad_desc());
}

}  // namespace meshwork::cpu
