// Convolutions by oneDNN's primitives.
//
// They read and write images as they are, channels last; the kernel they want in a format of their
// own, so it is reordered into the workspace (gradients: out of it) in every run, as it changes in
// every step. In bfloat16 so are the images that are multiplied, which rounds them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

/// A primitive of a convolution, as a kernel whose operands are the primitive's arguments. Where
/// the two want something in different formats or types, it is reordered into the workspace before,
/// or out of it behind. There lie also the scratchpads.
class NativeConvolution final : public Kernel {
 public:
  struct Argument {
    int number;  // DNNL_ARG_
    memory::desc of_program, of_primitive;
    bool written = false;
  };

  /// `arguments` by operand.
  NativeConvolution(const std::string& name, const dnnl::engine& engine,
                    const dnnl::primitive& primitive, const std::vector<Argument>& arguments,
                    const memory::desc& scratchpad)
      : primitive_(name, engine, primitive), operand_count_(arguments.size()) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const Argument& argument = arguments[i];
      primitive_.add(argument.number, argument.of_primitive);
      if (argument.of_program != argument.of_primitive) {
        (argument.written ? after_ : before_).push_back(reordering(name, engine, i, argument));
      }
    }
    primitive_.add(DNNL_ARG_SCRATCHPAD, scratchpad);
    scratchpad_at_ = bytes_;
    bytes_ += bytes_of(scratchpad);
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override { return bytes_; }

  void run(void* const* operands) override {
    std::array<void*, Primitive::most_arguments> addresses{};
    std::copy_n(operands, operand_count_, addresses.begin());
    std::byte* workspace = bytes_ > 0 ? static_cast<std::byte*>(operands[operand_count_]) : nullptr;
    addresses[operand_count_] = bytes_ > 0 ? workspace + scratchpad_at_ : nullptr;
    for (Reordering& one : before_) {
      addresses[one.operand] = workspace + one.at;
      one.primitive.run({operands[one.operand], workspace + one.at, workspace + one.scratchpad_at});
    }
    for (const Reordering& one : after_) addresses[one.operand] = workspace + one.at;
    primitive_.run(std::span(addresses).first(operand_count_ + 1));
    for (Reordering& one : after_) {
      one.primitive.run({workspace + one.at, operands[one.operand], workspace + one.scratchpad_at});
    }
  }

 private:
  struct Reordering {
    std::size_t operand;
    Primitive primitive;
    std::int64_t at, scratchpad_at;  // into the workspace
  };

  static std::int64_t bytes_of(const memory::desc& format) {
    return (static_cast<std::int64_t>(format.get_size()) + 63) / 64 * 64;
  }

  Reordering reordering(const std::string& name, const dnnl::engine& engine, std::size_t operand,
                        const Argument& argument) {
    const memory::desc& from = argument.written ? argument.of_primitive : argument.of_program;
    const memory::desc& to = argument.written ? argument.of_program : argument.of_primitive;
    const dnnl::reorder::primitive_desc description(engine, from, engine, to,
                                                    with_user_scratchpad());
    const memory::desc scratchpad = description.scratchpad_desc();
    Primitive primitive(fmt::format("the reordering of operand {} of {}", operand, name), engine,
                        dnnl::reorder(description));
    primitive.add(DNNL_ARG_FROM, from);
    primitive.add(DNNL_ARG_TO, to);
    primitive.add(DNNL_ARG_SCRATCHPAD, scratchpad);
    const std::int64_t at = bytes_;
    const std::int64_t scratchpad_at = at + bytes_of(argument.of_primitive);
    bytes_ = scratchpad_at + bytes_of(scratchpad);
    return {operand, std::move(primitive), at, scratchpad_at};
  }

  Primitive primitive_;
  std::size_t operand_count_;
  std::vector<Reordering> before_, after_;
  std::int64_t scratchpad_at_ = 0, bytes_ = 0;
};

/// The same memory with elements of another type.
memory::desc retyped(const memory::desc& of, memory::data_type type) {
  return memory::desc(of.dims(), type, memory::format_tag::nhwc);
}

/// What the three convolutions are made from. In bfloat16 the two that are multiplied have elements
/// of that type: `multiplied` are the images among them.
struct Setting {
  explicit Setting(const ConvolutionShape& at, Precision precision, bool bias = false)
      : factor(precision == Precision::bfloat16 ? memory::data_type::bf16 : memory::data_type::f32),
        plain(plain_of(at, bias)),
        source(retyped(plain.source, factor)),
        destination(retyped(plain.destination, factor)),
        description(description_of(at, plain)),
        forward(describe_convolution(engine, with(source, factor, plain.destination), attributes)) {
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
  Plain plain;
  memory::desc source, destination;  // as factors
  ConvolutionDescription description;
  dnnl::convolution_forward::primitive_desc forward;
};

}  // namespace

KernelPointer compile_native(const ConvolutionSpec& spec) {
  if (!padding_is_plain(spec.at)) return nullptr;
  const Setting set(spec.at, spec.precision, spec.bias);
  if (!is_native(set.forward, spec.at)) return nullptr;
  std::vector<NativeConvolution::Argument> arguments{
      {DNNL_ARG_SRC, set.plain.source, set.source},
      {DNNL_ARG_WEIGHTS, set.plain.weights, set.forward.weights_desc()}};
  if (spec.bias) arguments.push_back({DNNL_ARG_BIAS, set.plain.bias, set.plain.bias});
  arguments.push_back({DNNL_ARG_DST, set.plain.destination, set.plain.destination, true});
  return std::make_unique<NativeConvolution>(describe(spec), set.engine,
                                             dnnl::convolution_forward(set.forward), arguments,
                                             set.forward.scratchpad_desc());
}

KernelPointer compile_native(const ConvolutionInputGradientSpec& spec) {
  if (!padding_is_plain(spec.at)) return nullptr;
  const Setting set(spec.at, spec.precision);
  const auto gradient = describe_convolution_gradient<dnnl::convolution_backward_data>(
      set.engine, set.with(set.plain.source, set.factor, set.destination), set.attributes,
      set.forward);
  if (!is_native(gradient, spec.at)) return nullptr;
  const std::vector<NativeConvolution::Argument> arguments{
      {DNNL_ARG_DIFF_DST, set.plain.destination, set.destination},
      {DNNL_ARG_WEIGHTS, set.plain.weights, gradient.weights_desc()},
      {DNNL_ARG_DIFF_SRC, set.plain.source, set.plain.source, true}};
  return std::make_unique<NativeConvolution>(describe(spec), set.engine,
                                             dnnl::convolution_backward_data(gradient), arguments,
                                             gradient.scratchpad_desc());
}

KernelPointer compile_native(const ConvolutionKernelGradientSpec& spec) {
  if (!padding_is_plain(spec.at)) return nullptr;
  const Setting set(spec.at, spec.precision);
  const auto gradient = describe_convolution_gradient<dnnl::convolution_backward_weights>(
      set.engine, set.with(set.source, memory::data_type::f32, set.destination), set.attributes,
      set.forward);
  if (!is_native(gradient, spec.at)) return nullptr;
  const std::vector<NativeConvolution::Argument> arguments{
      {DNNL_ARG_SRC, set.plain.source, set.source},
      {DNNL_ARG_DIFF_DST, set.plain.destination, set.destination},
      {DNNL_ARG_DIFF_WEIGHTS, set.plain.weights, gradient.diff_weights_desc(), true}};
  return std::make_unique<NativeConvolution>(describe(spec), set.engine,
                                             dnnl::convolution_backward_weights(gradient),
                                             arguments, gradient.scratchpad_desc());
}

}  // namespace meshwork::cpu
