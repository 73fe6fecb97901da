// Convolutions as products with unfolded images.
//
// The windows of some rows of the output become the rows of a matrix (positions, window places *
// channels), and dnnl_sgemm multiplies it with the kernel, which is a matrix (window places *
// channels, filters) as it lies in memory. Gradients by the input go the other way: a product, then
// its elements are added to where they came from. That covers all that there is: padding beyond the
// window, negative padding, gradients under dilation with stride.
#include <algorithm>

#include "collectives/error.h"
#include "runtime/device/cpu/convolution_forms.h"
#include "runtime/device/cpu/dnnl_version.h"
#include "runtime/device/cpu/loops.h"

namespace meshwork::cpu {

namespace {

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

}  // namespace

KernelPointer compile_unfolded(const ConvolutionSpec& spec, const Context& context) {
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

}  // namespace meshwork::cpu
