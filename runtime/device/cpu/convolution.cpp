// Convolutions and their gradients, on images with channels last.
//
// Two forms. oneDNN's primitives read and write images as they are; the kernel they want in a format
// of their own, so it is reordered into the workspace (gradients: out of it) in every run, as it
// changes in every step. For what oneDNN computes only by loops or by its own unfolding, the *unfolded*
// form is taken: the windows of some rows of the output become the rows of a matrix (positions, window
// places * channels), and dnnl_sgemm multiplies it with the kernel, which is a matrix (window places *
// channels, filters) as it lies in memory. That covers all that there is: padding beyond the window,
// negative padding, gradients under dilation with stride.
//
// The rule is fixed: oneDNN, unless its implementation is called "ref" or "gemm". Measured on one
// Cascade Lake core (AVX-512, about 150 GFLOP/s at its clock; oneDNN 2.6.3; batch 64; fastest runs on
// a busy machine), ms forward, input gradient, kernel gradient:
//
//                                        oneDNN, channels last   blocked with reorders   its gemm form
//   28x28x12 to 14x14x24 by 6x6 / 2      5.4   5.1   6.2         5.0   6.6  12.3         39   6.1   36
//   14x14x24 to  7x7x32  by 6x6 / 2      1.2   3.4   1.9         2.0   2.0   3.5         18   2.8   26
//   14x14x64 to 14x14x64 by 3x3          6.8   9.0   8.1         8.1  10.3   8.4         37    19   16
//
// Bound by FLOP: 14x14x64 by 3x3 runs forward at 137 GFLOP/s, 0.9 of the peak, its gradients at 0.7
// to 0.75; 12 channels and 24 filters fill 12 of 16 and 24 of 32 lanes, and the middle one of the
// network runs at 50 GFLOP/s. Reordering the kernel costs 0.001 to 0.015 ms.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/cpu/dnnl_version.h"
#include "runtime/device/cpu/epilogue.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/primitive.h"

namespace meshwork::cpu {

namespace {

using dnnl::memory;

/// What pads behind the input; negative if the last inputs are not looked at.
std::int64_t padding_after(const WindowDimension& at) {
  return (at.output - 1) * at.stride + (at.window - 1) * at.dilation + 1 - at.padding - at.input;
}

std::int64_t input_count(const ConvolutionShape& at) {
  return at.batch * at.rows.input * at.columns.input * at.channels;
}
std::int64_t output_count(const ConvolutionShape& at) {
  return at.batch * at.rows.output * at.columns.output * at.filters;
}
std::int64_t kernel_count(const ConvolutionShape& at) {
  return at.rows.window * at.columns.window * at.channels / at.groups * at.filters;
}
/// Whether the convolution adds up anything.
bool has_terms(const ConvolutionShape& at) {
  return input_count(at) > 0 && output_count(at) > 0;
}

void check_shape(const ConvolutionShape& at, const std::string& name) {
  for (const WindowDimension& d : {at.rows, at.columns}) {
    if (d.input < 0 || d.output < 0 || d.window < 1 || d.stride < 1 || d.dilation < 1) {
      internal_error(
          fmt::format("{} has a window, stride or dilation below 1, or a negative length", name));
    }
  }
  if (at.batch < 0 || at.channels < 0 || at.filters < 0 || at.groups < 1 ||
      at.channels % at.groups != 0 || at.filters % at.groups != 0) {
    internal_error(fmt::format("{} has channels or filters that its groups do not divide", name));
  }
}

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// ---- oneDNN --------------------------------------------------------------------------------------

bool padding_is_plain(const WindowDimension& at) {
  return at.padding >= 0 && padding_after(at) > -at.stride;
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

/// The kernel between the format of the program and the one that a primitive wants; nothing where
/// these are the same. In the workspace lie the reordered kernel and the scratchpad.
class KernelReorder {
 public:
  KernelReorder(const std::string& name, const dnnl::engine& engine, const memory::desc& from,
                const memory::desc& to, const memory::desc& reordered)
      : needed_(from != to) {
    if (!needed_) return;
    const dnnl::reorder::primitive_desc description(engine, from, engine, to,
                                                    with_user_scratchpad());
    const memory::desc scratchpad = description.scratchpad_desc();
    scratchpad_at_ = aligned(static_cast<std::int64_t>(reordered.get_size()));
    bytes_ = scratchpad_at_ + aligned(static_cast<std::int64_t>(scratchpad.get_size()));
    reorder_ =
        Primitive("the reordering of the kernel of " + name, engine, dnnl::reorder(description));
    reorder_.add(DNNL_ARG_FROM, from);
    reorder_.add(DNNL_ARG_TO, to);
    reorder_.add(DNNL_ARG_SCRATCHPAD, scratchpad);
  }

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// Where the reordered kernel lies.
  [[nodiscard]] void* reordered(void* kernel, std::byte* workspace) const {
    return needed_ ? workspace : kernel;
  }
  void before(void* kernel, std::byte* workspace) {
    if (needed_) reorder_.run({kernel, workspace, workspace + scratchpad_at_});
  }
  void after(std::byte* workspace, void* kernel) {
    if (needed_) reorder_.run({workspace, kernel, workspace + scratchpad_at_});
  }

 private:
  bool needed_ = false;
  std::int64_t scratchpad_at_ = 0, bytes_ = 0;
  Primitive reorder_;
};

/// Null where oneDNN has nothing better than the unfolded form.
KernelPointer compile_native(const ConvolutionSpec& spec) {
  const ConvolutionShape& at = spec.at;
  if (!padding_is_plain(at.rows) || !padding_is_plain(at.columns)) return nullptr;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const Plain plain = plain_of(at, spec.bias);
  const auto description =
      describe_convolution(engine, description_of(at, plain), with_user_scratchpad());
  if (!is_native(description)) return nullptr;

  const std::string name = describe(spec);
  KernelReorder reorder(name, engine, plain.weights, description.weights_desc(),
                        description.weights_desc());
  Primitive primitive(name, engine, dnnl::convolution_forward(description));
  primitive.add(DNNL_ARG_SRC, plain.source);
  primitive.add(DNNL_ARG_WEIGHTS, description.weights_desc());
  if (spec.bias) primitive.add(DNNL_ARG_BIAS, plain.bias);
  primitive.add(DNNL_ARG_DST, plain.destination);
  primitive.add(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
  const std::int64_t bytes =
      reorder.bytes() + static_cast<std::int64_t>(description.scratchpad_desc().get_size());
  auto body = [=, reorder = std::move(reorder),
               primitive = std::move(primitive)](void* const* operands) mutable {
    std::byte* workspace =
        bytes > 0 ? static_cast<std::byte*>(operands[spec.bias ? 4 : 3]) : nullptr;
    std::byte* scratchpad = bytes > 0 ? workspace + reorder.bytes() : nullptr;
    reorder.before(operands[1], workspace);
    void* kernel = reorder.reordered(operands[1], workspace);
    if (spec.bias) {
      primitive.run({operands[0], kernel, operands[2], operands[3], scratchpad});
    } else {
      primitive.run({operands[0], kernel, operands[2], scratchpad});
    }
  };
  return make_kernel(std::move(body), bytes);
}

KernelPointer compile_native(const ConvolutionInputGradientSpec& spec) {
  const ConvolutionShape& at = spec.at;
  if (!padding_is_plain(at.rows) || !padding_is_plain(at.columns)) return nullptr;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const Plain plain = plain_of(at, false);
  const ConvolutionDescription convolution = description_of(at, plain);
  const dnnl::primitive_attr attributes = with_user_scratchpad();
  const auto description = describe_convolution_input(
      engine, convolution, attributes, describe_convolution(engine, convolution, attributes));
  if (!is_native(description)) return nullptr;

  const std::string name = describe(spec);
  KernelReorder reorder(name, engine, plain.weights, description.weights_desc(),
                        description.weights_desc());
  Primitive primitive(name, engine, dnnl::convolution_backward_data(description));
  primitive.add(DNNL_ARG_DIFF_DST, plain.destination);
  primitive.add(DNNL_ARG_WEIGHTS, description.weights_desc());
  primitive.add(DNNL_ARG_DIFF_SRC, plain.source);
  primitive.add(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
  const std::int64_t bytes =
      reorder.bytes() + static_cast<std::int64_t>(description.scratchpad_desc().get_size());
  auto body = [=, reorder = std::move(reorder),
               primitive = std::move(primitive)](void* const* operands) mutable {
    std::byte* workspace = bytes > 0 ? static_cast<std::byte*>(operands[3]) : nullptr;
    std::byte* scratchpad = bytes > 0 ? workspace + reorder.bytes() : nullptr;
    reorder.before(operands[1], workspace);
    primitive.run(
        {operands[0], reorder.reordered(operands[1], workspace), operands[2], scratchpad});
  };
  return make_kernel(std::move(body), bytes);
}

KernelPointer compile_native(const ConvolutionKernelGradientSpec& spec) {
  const ConvolutionShape& at = spec.at;
  if (!padding_is_plain(at.rows) || !padding_is_plain(at.columns)) return nullptr;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const Plain plain = plain_of(at, false);
  const ConvolutionDescription convolution = description_of(at, plain);
  const dnnl::primitive_attr attributes = with_user_scratchpad();
  const auto description = describe_convolution_kernel(
      engine, convolution, attributes, describe_convolution(engine, convolution, attributes));
  if (!is_native(description)) return nullptr;

  const std::string name = describe(spec);
  KernelReorder reorder(name, engine, description.diff_weights_desc(), plain.weights,
                        description.diff_weights_desc());
  Primitive primitive(name, engine, dnnl::convolution_backward_weights(description));
  primitive.add(DNNL_ARG_SRC, plain.source);
  primitive.add(DNNL_ARG_DIFF_DST, plain.destination);
  primitive.add(DNNL_ARG_DIFF_WEIGHTS, description.diff_weights_desc());
  primitive.add(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
  const std::int64_t bytes =
      reorder.bytes() + static_cast<std::int64_t>(description.scratchpad_desc().get_size());
  auto body = [=, reorder = std::move(reorder),
               primitive = std::move(primitive)](void* const* operands) mutable {
    std::byte* workspace = bytes > 0 ? static_cast<std::byte*>(operands[3]) : nullptr;
    std::byte* scratchpad = bytes > 0 ? workspace + reorder.bytes() : nullptr;
    primitive.run(
        {operands[0], operands[1], reorder.reordered(operands[2], workspace), scratchpad});
    reorder.after(workspace, operands[2]);
  };
  return make_kernel(std::move(body), bytes);
}

// ---- unfolded ------------------------------------------------------------------------------------

/// The windows of one image's rows of the output, by group, as a matrix (positions, places *
/// channels of the group).
class Unfolding {
 public:
  explicit Unfolding(const ConvolutionShape& at)
      : at_(at),
        channels_(at.channels / at.groups),
        width_(at.rows.window * at.columns.window * channels_) {
    // As many rows as stay in the second cache together with their products.
    constexpr std::int64_t bytes_wanted = 512 * 1024;
    rows_ = std::clamp<std::int64_t>(bytes_wanted / (4 * width_ * at.columns.output), 1,
                                     at.rows.output);
  }

  [[nodiscard]] std::int64_t bytes() const { return 4 * rows_ * at_.columns.output * width_; }
  [[nodiscard]] std::int64_t channels() const { return channels_; }
  [[nodiscard]] std::int64_t width() const { return width_; }

  /// body(image, first row, rows) for pieces that cover the output.
  template <class Body>
  void for_pieces(const Body& body) const {
    for (std::int64_t image = 0; image < at_.batch; ++image) {
      for (std::int64_t row = 0; row < at_.rows.output; row += rows_) {
        body(image, row, std::min(rows_, at_.rows.output - row));
      }
    }
  }

  /// visit(input, matrix) for each place of each position's window: offsets of the first of
  /// `channels()` elements in an image's group 0 and in the matrix; input is -1 in padding. A row
  /// of the output is one thread's.
  template <class Visit>
  void for_places(int threads, std::int64_t first_row, std::int64_t rows,
                  const Visit& visit) const {
    for_rows(threads, rows, 8 * at_.columns.output * width_, [&](std::int64_t row) {
      std::int64_t matrix = row * at_.columns.output * width_;
      for (std::int64_t column = 0; column < at_.columns.output; ++column) {
        for (std::int64_t r = 0; r < at_.rows.window; ++r) {
          const std::int64_t y =
              (first_row + row) * at_.rows.stride - at_.rows.padding + r * at_.rows.dilation;
          const bool inside = y >= 0 && y < at_.rows.input;
          for (std::int64_t s = 0; s < at_.columns.window; ++s, matrix += channels_) {
            const std::int64_t x =
                column * at_.columns.stride - at_.columns.padding + s * at_.columns.dilation;
            visit(inside && x >= 0 && x < at_.columns.input
                      ? (y * at_.columns.input + x) * at_.channels
                      : -1,
                  matrix);
          }
        }
      }
    });
  }

  void unfold(int threads, std::int64_t first_row, std::int64_t rows, const float* group,
              float* matrix) const {
    for_places(threads, first_row, rows, [=, this](std::int64_t input, std::int64_t place) {
      float* to = matrix + place;
      if (input < 0) {
        std::fill_n(to, channels_, 0.0f);
      } else {
        std::copy_n(group + input, channels_, to);
      }
    });
  }

  /// Adds the matrix to where its elements came from, in order.
  void fold(std::int64_t first_row, std::int64_t rows, const float* matrix, float* group) const {
    for_places(1, first_row, rows, [=, this](std::int64_t input, std::int64_t place) {
      if (input < 0) return;
      for (std::int64_t i = 0; i < channels_; ++i) group[input + i] += matrix[place + i];
    });
  }

  /// Offset of one group of one image in the input, and of a row of the output.
  [[nodiscard]] std::int64_t input_at(std::int64_t image, std::int64_t group) const {
    return image * at_.rows.input * at_.columns.input * at_.channels + group * channels_;
  }
  [[nodiscard]] std::int64_t output_at(std::int64_t image, std::int64_t row,
                                       std::int64_t group) const {
    return (image * at_.rows.output + row) * at_.columns.output * at_.filters +
           group * (at_.filters / at_.groups);
  }

 private:
  ConvolutionShape at_;
  std::int64_t channels_, width_, rows_;
};

/// c (m, n) = op(a) op(b) + beta c, with the distances between rows.
void multiply(char op_a, char op_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
              std::int64_t a_row, const float* b, std::int64_t b_row, float beta, float* c,
              std::int64_t c_row) {
  const dnnl_status_t status =
      dnnl_sgemm(op_a, op_b, m, n, k, 1.0f, a, a_row, b, b_row, beta, c, c_row);
  if (status != dnnl_success) {
    fail("oneDNN failed in a product {}x{}x{} of a convolution with status {}", m, n, k,
         static_cast<int>(status));
  }
}

/// The convolution alone, then bias and activation.
KernelPointer with_bias(const ConvolutionSpec& spec, const Context& context) {
  const ConvolutionSpec alone{.at = spec.at};
  return with_epilogue(compile(alone, context), output_count(spec.at) / spec.at.filters,
                       spec.at.filters, spec.bias, spec.activation, context);
}

KernelPointer compile_unfolded(const ConvolutionSpec& spec, const Context& context) {
  if (spec.bias) return with_bias(spec, context);
  const ConvolutionShape& at = spec.at;
  const Unfolding unfolding(at);
  const std::int64_t filters = at.filters / at.groups;
  return make_kernel(
      [=, threads = context.threads](void* const* operands) {
        const float* x = cpu::at(operands, 0);
        const float* kernel = cpu::at(operands, 1);
        float* y = cpu::at(operands, 2);
        float* matrix = cpu::at(operands, 3);
        unfolding.for_pieces([&](std::int64_t image, std::int64_t row, std::int64_t rows) {
          const std::int64_t positions = rows * at.columns.output;
          for (std::int64_t group = 0; group < at.groups; ++group) {
            unfolding.unfold(threads, row, rows, x + unfolding.input_at(image, group), matrix);
            multiply('N', 'N', positions, filters, unfolding.width(), matrix, unfolding.width(),
                     kernel + group * filters, at.filters, 0,
                     y + unfolding.output_at(image, row, group), at.filters);
          }
        });
      },
      unfolding.bytes());
}

KernelPointer compile_unfolded(const ConvolutionInputGradientSpec& spec, const Context& context) {
  const ConvolutionShape& at = spec.at;
  const Unfolding unfolding(at);
  const std::int64_t filters = at.filters / at.groups;
  return make_kernel(
      [=, threads = context.threads](void* const* operands) {
        const float* dy = cpu::at(operands, 0);
        const float* kernel = cpu::at(operands, 1);
        float* dx = cpu::at(operands, 2);
        float* matrix = cpu::at(operands, 3);
        for_ranges(threads, input_count(at), 4, [=](std::int64_t begin, std::int64_t end) {
          std::fill(dx + begin, dx + end, 0.0f);
        });
        unfolding.for_pieces([&](std::int64_t image, std::int64_t row, std::int64_t rows) {
          for (std::int64_t group = 0; group < at.groups; ++group) {
            multiply('N', 'T', rows * at.columns.output, unfolding.width(), filters,
                     dy + unfolding.output_at(image, row, group), at.filters,
                     kernel + group * filters, at.filters, 0, matrix, unfolding.width());
            unfolding.fold(row, rows, matrix, dx + unfolding.input_at(image, group));
          }
        });
      },
      unfolding.bytes());
}

KernelPointer compile_unfolded(const ConvolutionKernelGradientSpec& spec, const Context& context) {
  const ConvolutionShape& at = spec.at;
  const Unfolding unfolding(at);
  const std::int64_t filters = at.filters / at.groups;
  return make_kernel(
      [=, threads = context.threads](void* const* operands) {
        const float* x = cpu::at(operands, 0);
        const float* dy = cpu::at(operands, 1);
        float* dkernel = cpu::at(operands, 2);
        float* matrix = cpu::at(operands, 3);
        unfolding.for_pieces([&](std::int64_t image, std::int64_t row, std::int64_t rows) {
          for (std::int64_t group = 0; group < at.groups; ++group) {
            unfolding.unfold(threads, row, rows, x + unfolding.input_at(image, group), matrix);
            multiply('T', 'N', unfolding.width(), filters, rows * at.columns.output, matrix,
                     unfolding.width(), dy + unfolding.output_at(image, row, group), at.filters,
                     image == 0 && row == 0 ? 0.0f : 1.0f, dkernel + group * filters, at.filters);
          }
        });
      },
      unfolding.bytes());
}

// ---- both ----------------------------------------------------------------------------------------

/// Writes zeros to operand 2, of `count` elements.
KernelPointer zeros(std::int64_t count, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    float* to = cpu::at(operands, 2);
    for_ranges(threads, count, 4, [=](std::int64_t begin, std::int64_t end) {
      std::fill(to + begin, to + end, 0.0f);
    });
  });
}

template <class Spec>
KernelPointer compile_either(const Spec& spec, const Context& context) {
  try {
    if (KernelPointer native = compile_native(spec)) return native;
  } catch (const dnnl::error& error) {
    // oneDNN has no implementation at all; any other failure is one.
    if (error.status != dnnl_unimplemented) {
      fail("oneDNN cannot make {}: {} (status {})", describe(spec), error.what(),
           static_cast<int>(error.status));
    }
  }
  return compile_unfolded(spec, context);
}

}  // namespace

KernelPointer compile(const ConvolutionSpec& spec, const Context& context) {
  check_shape(spec.at, describe(spec));
  if (spec.activation != Activation::linear && spec.activation != Activation::relu) {
    internal_error(
        fmt::format("{} fuses an activation that is neither linear nor relu", describe(spec)));
  }
  if (output_count(spec.at) == 0) return make_kernel([](void* const*) {});
  if (spec.activation != Activation::linear || (spec.bias && !has_terms(spec.at))) {
    return with_bias(spec, context);
  }
  return has_terms(spec.at) ? compile_either(spec, context) : zeros(output_count(spec.at), context);
}

KernelPointer compile(const ConvolutionInputGradientSpec& spec, const Context& context) {
  check_shape(spec.at, describe(spec));
  return has_terms(spec.at) ? compile_either(spec, context) : zeros(input_count(spec.at), context);
}

KernelPointer compile(const ConvolutionKernelGradientSpec& spec, const Context& context) {
  check_shape(spec.at, describe(spec));
  return has_terms(spec.at) ? compile_either(spec, context) : zeros(kernel_count(spec.at), context);
}

}  // namespace meshwork::cpu
