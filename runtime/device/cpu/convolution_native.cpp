// Convolutions by oneDNN's primitives.
//
// They read and write images as they are, channels last; the kernel they want in a format of their
// own, so it is reordered into the workspace (gradients: out of it) in every run, as it changes in
// every step.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/cpu/convolution_forms.h"
#include "runtime/device/cpu/dnnl_version.h"
#include "runtime/device/cpu/primitive.h"

namespace meshwork::cpu {

namespace {

using dnnl::memory;

/// What pads behind the input; negative if the last inputs are not looked at.
std::int64_t padding_after(const WindowDimension& at) {
  return (at.output - 1) * at.stride + (at.window - 1) * at.dilation + 1 - at.padding - at.input;
}

/// Whether oneDNN takes the padding as it is.
bool padding_is_plain(const ConvolutionShape& at) {
  const auto plain = [](const WindowDimension& along) {
    return along.padding >= 0 && padding_after(along) > -along.stride;
  };
  return plain(at.rows) && plain(at.columns);
}

/// The operands as they lie in memory: (batch, channels, rows, columns) in oneDNN's order of
/// dimensions, channels last in memory; the kernel as ([groups,] filters, channels, rows, columns).
struct Plain {
  memory::desc source, weights, bias, destination;
};

Plain plain_of(const ConvolutionShape& at, bool bias) {
  constexpr auto f32 = memory::data_type::f32;
  constexpr auto channels_last = memory::format_tag::nhwc;
  const std::int64_t channels = at.channels / at.groups, filters = at.filters / at.groups;
  const std::int64_t place = channels * at.filters;
  memory::dims lengths{filters, channels, at.rows.window, at.columns.window};
  memory::dims strides{1, at.filters, at.columns.window * place, place};
  if (at.groups > 1) {
    lengths.insert(lengths.begin(), at.groups);
    strides.insert(strides.begin(), filters);
  }
  return {
      memory::desc({at.batch, at.channels, at.rows.input, at.columns.input}, f32, channels_last),
      memory::desc(lengths, f32, strides),
      bias ? memory::desc({at.filters}, f32, memory::format_tag::a) : memory::desc(),
      memory::desc({at.batch, at.filters, at.rows.output, at.columns.output}, f32, channels_last)};
}

/// The same for oneDNN, with the kernel in whichever format it likes.
ConvolutionDescription description_of(const ConvolutionShape& at, const Plain& plain) {
  const memory::desc any(plain.weights.dims(), memory::data_type::f32, memory::format_tag::any);
  return {.source = plain.source,
          .weights = any,
          .bias = plain.bias,
          .destination = plain.destination,
          .strides = {at.rows.stride, at.columns.stride},
          .dilations = {at.rows.dilation - 1, at.columns.dilation - 1},
          .padding_before = {at.rows.padding, at.columns.padding},
          .padding_after = {padding_after(at.rows), padding_after(at.columns)}};
}

dnnl::primitive_attr with_user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// Whether oneDNN has code of its own for what `description` describes.
template <class PrimitiveDescription>
bool is_native(const PrimitiveDescription& description) {
  const std::string_view name = description.impl_info_str();
  return name.find("ref") == name.npos && name.find("gemm") == name.npos;
}

/// A primitive of a convolution, as a kernel: its arguments are the operands, of which one, the
/// convolution's kernel, is reordered from the program's format to the one that the primitive
/// wants, or back where the primitive writes it. Nothing is reordered where the two are the same.
/// In the workspace lie the reordered kernel, and the scratchpads of both.
class NativeConvolution final : public Kernel {
 public:
  struct Argument {
    int number;  // DNNL_ARG_
    memory::desc format;
  };
  enum class Access { reads_kernel, writes_kernel };

  /// `arguments` by operand, the one in place `kernel` in the primitive's format; `plain_kernel` is
  /// the program's.
  NativeConvolution(const std::string& name, const dnnl::engine& engine,
                    const dnnl::primitive& primitive, const std::vector<Argument>& arguments,
                    std::size_t kernel, Access access, const memory::desc& plain_kernel,
                    const memory::desc& scratchpad)
      : primitive_(name, engine, primitive), kernel_(kernel), access_(access) {
    for (const Argument& argument : arguments) primitive_.add(argument.number, argument.format);
    primitive_.add(DNNL_ARG_SCRATCHPAD, scratchpad);
    operands_ = arguments.size();
    const memory::desc& wanted = arguments[kernel].format;
    if (wanted != plain_kernel) {
      const bool writes = access == Access::writes_kernel;
      plan_reorder(name, engine, writes ? wanted : plain_kernel, writes ? plain_kernel : wanted,
                   bytes_of(wanted));
    }
    bytes_ = scratchpad_at_ + bytes_of(scratchpad);
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override { return bytes_; }

  void run(void* const* operands) override {
    std::array<void*, Primitive::most_arguments> addresses{};
    std::copy_n(operands, operands_, addresses.begin());
    std::byte* workspace = bytes_ > 0 ? static_cast<std::byte*>(operands[operands_]) : nullptr;
    addresses[operands_] = bytes_ > 0 ? workspace + scratchpad_at_ : nullptr;
    if (reorders_) {
      addresses[kernel_] = workspace;
      if (access_ == Access::reads_kernel) reorder(operands[kernel_], workspace, workspace);
    }
    primitive_.run(std::span(addresses).first(operands_ + 1));
    if (reorders_ && access_ == Access::writes_kernel) {
      reorder(workspace, operands[kernel_], workspace);
    }
  }

 private:
  static std::int64_t bytes_of(const memory::desc& format) {
    return (static_cast<std::int64_t>(format.get_size()) + 63) / 64 * 64;
  }

  void plan_reorder(const std::string& name, const dnnl::engine& engine, const memory::desc& from,
                    const memory::desc& to, std::int64_t kernel_bytes) {
    const dnnl::reorder::primitive_desc description(engine, from, engine, to,
                                                    with_user_scratchpad());
    const memory::desc scratchpad = description.scratchpad_desc();
    reorder_ =
        Primitive("the reordering of the kernel of " + name, engine, dnnl::reorder(description));
    reorder_.add(DNNL_ARG_FROM, from);
    reorder_.add(DNNL_ARG_TO, to);
    reorder_.add(DNNL_ARG_SCRATCHPAD, scratchpad);
    reorders_ = true;
    reorder_scratchpad_at_ = kernel_bytes;
    scratchpad_at_ = kernel_bytes + bytes_of(scratchpad);
  }
  void reorder(void* from, void* to, std::byte* workspace) {
    reorder_.run({from, to, workspace + reorder_scratchpad_at_});
  }

  Primitive primitive_, reorder_;
  std::size_t kernel_, operands_ = 0;
  Access access_;
  bool reorders_ = false;
  std::int64_t reorder_scratchpad_at_ = 0, scratchpad_at_ = 0, bytes_ = 0;
};

/// What the three convolutions are made from.
struct Setting {
  explicit Setting(const ConvolutionShape& at, bool bias = false)
      : plain(plain_of(at, bias)),
        description(description_of(at, plain)),
        forward(describe_convolution(engine, description, attributes)) {}

  template <class Gradient>
  [[nodiscard]] typename Gradient::primitive_desc gradient() const {
    return describe_convolution_gradient<Gradient>(engine, description, attributes, forward);
  }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::primitive_attr attributes = with_user_scratchpad();
  Plain plain;
  ConvolutionDescription description;
  dnnl::convolution_forward::primitive_desc forward;
};

}  // namespace

KernelPointer compile_native(const ConvolutionSpec& spec) {
  if (!padding_is_plain(spec.at)) return nullptr;
  const Setting set(spec.at, spec.bias);
  if (!is_native(set.forward)) return nullptr;
  std::vector<NativeConvolution::Argument> arguments{
      {DNNL_ARG_SRC, set.plain.source}, {DNNL_ARG_WEIGHTS, set.forward.weights_desc()}};
  if (spec.bias) arguments.push_back({DNNL_ARG_BIAS, set.plain.bias});
  arguments.push_back({DNNL_ARG_DST, set.plain.destination});
  return std::make_unique<NativeConvolution>(
      describe(spec), set.engine, dnnl::convolution_forward(set.forward), arguments, 1,
      NativeConvolution::Access::reads_kernel, set.plain.weights, set.forward.scratchpad_desc());
}

KernelPointer compile_native(const ConvolutionInputGradientSpec& spec) {
  if (!padding_is_plain(spec.at)) return nullptr;
  const Setting set(spec.at);
  const auto gradient = set.gradient<dnnl::convolution_backward_data>();
  if (!is_native(gradient)) return nullptr;
  const std::vector<NativeConvolution::Argument> arguments{
      {DNNL_ARG_DIFF_DST, set.plain.destination},
      {DNNL_ARG_WEIGHTS, gradient.weights_desc()},
      {DNNL_ARG_DIFF_SRC, set.plain.source}};
  return std::make_unique<NativeConvolution>(
      describe(spec), set.engine, dnnl::convolution_backward_data(gradient), arguments, 1,
      NativeConvolution::Access::reads_kernel, set.plain.weights, gradient.scratchpad_desc());
}

KernelPointer compile_native(const ConvolutionKernelGradientSpec& spec) {
  if (!padding_is_plain(spec.at)) return nullptr;
  const Setting set(spec.at);
  const auto gradient = set.gradient<dnnl::convolution_backward_weights>();
  if (!is_native(gradient)) return nullptr;
  const std::vector<NativeConvolution::Argument> arguments{
      {DNNL_ARG_SRC, set.plain.source},
      {DNNL_ARG_DIFF_DST, set.plain.destination},
      {DNNL_ARG_DIFF_WEIGHTS, gradient.diff_weights_desc()}};
  return std::make_unique<NativeConvolution>(
      describe(spec), set.engine, dnnl::convolution_backward_weights(gradient), arguments, 2,
      NativeConvolution::Access::writes_kernel, set.plain.weights, gradient.scratchpad_desc());
}

}  // namespace meshwork::cpu
