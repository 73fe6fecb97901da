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
#include "runtime/device/kernels/convolution.h"

namespace meshwork::cpu {

namespace {

/// Some rows of one image's output, of one group.
struct Piece {
  bool first;              // of its group
  std::int64_t row, rows;  // of the output
  std::int64_t positions;  // in these rows
  std::int64_t input;      // offset of the image's group in x
  std::int64_t output;     // offset of the rows' group in y
  std::int64_t filter;     // offset of the group in a row of the kernel
};

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
  [[nodiscard]] std::int64_t width() const { return width_; }
  [[nodiscard]] std::int64_t filters() const { return at_.filters / at_.groups; }

  /// body(piece) for pieces that cover the output of every group.
  template <class Body>
  void for_pieces(const Body& body) const {
    for (std::int64_t image = 0; image < at_.batch; ++image) {
      for (std::int64_t row = 0; row < at_.rows.output; row += rows_) {
        const std::int64_t rows = std::min(rows_, at_.rows.output - row);
        for (std::int64_t group = 0; group < at_.groups; ++group) {
          body(Piece{.first = image == 0 && row == 0,
                     .row = row,
                     .rows = rows,
                     .positions = rows * at_.columns.output,
                     .input = image * at_.rows.input * at_.columns.input * at_.channels +
                              group * channels_,
                     .output = (image * at_.rows.output + row) * at_.columns.output * at_.filters +
                               group * filters(),
                     .filter = group * filters()});
        }
      }
    }
  }

  /// visit(input, matrix) for each place of each position's window: offsets of the first of
  /// a place's elements in an image's group 0 and in the matrix; input is -1 in padding. A row
  /// of the output is one thread's.
  template <class Visit>
  void for_places(int threads, const Piece& piece, const Visit& visit) const {
    for_rows(threads, piece.rows, 8 * at_.columns.output * width_, [&](std::int64_t row) {
      std::int64_t matrix = row * at_.columns.output * width_;
      for (std::int64_t column = 0; column < at_.columns.output; ++column) {
        for (std::int64_t r = 0; r < at_.rows.window; ++r) {
          const std::int64_t y =
              (piece.row + row) * at_.rows.stride - at_.rows.padding + r * at_.rows.dilation;
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

  /// The matrix of a piece of x.
  void unfold(int threads, const Piece& piece, const float* x, float* matrix) const {
    const float* group = x + piece.input;
    for_places(threads, piece, [=, this](std::int64_t input, std::int64_t place) {
      float* to = matrix + place;
      if (input < 0) {
        std::fill_n(to, channels_, 0.0f);
      } else {
        std::copy_n(group + input, channels_, to);
      }
    });
  }

  /// Adds the matrix of a piece to where its elements came from in x, in order.
  void fold(const Piece& piece, const float* matrix, float* x) const {
    float* group = x + piece.input;
    for_places(1, piece, [=, this](std::int64_t input, std::int64_t place) {
      if (input < 0) return;
      for (std::int64_t i = 0; i < channels_; ++i) group[input + i] += matrix[place + i];
    });
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
  const Unfolding unfolding(spec.at);
  const std::int64_t row = spec.at.filters;
  const auto run = [=, threads = context.threads](void* const* operands) {
    float* matrix = at(operands, 3);
    unfolding.for_pieces([&](const Piece& piece) {
      unfolding.unfold(threads, piece, at(operands, 0), matrix);
      multiply('N', 'N', piece.positions, unfolding.filters(), unfolding.width(), matrix,
               unfolding.width(), at(operands, 1) + piece.filter, row, 0,
               at(operands, 2) + piece.output, row);
    });
  };
  return make_kernel(run, unfolding.bytes());
}

KernelPointer compile_unfolded(const ConvolutionInputGradientSpec& spec, const Context& context) {
  const Unfolding unfolding(spec.at);
  const std::int64_t row = spec.at.filters, inputs = input_count(spec.at);
  const auto run = [=, threads = context.threads](void* const* operands) {
    float* dx = at(operands, 2);
    float* matrix = at(operands, 3);
    for_ranges(threads, inputs, 4, [=](std::int64_t begin, std::int64_t end) {
      std::fill(dx + begin, dx + end, 0.0f);
    });
    unfolding.for_pieces([&](const Piece& piece) {
      multiply('N', 'T', piece.positions, unfolding.width(), unfolding.filters(),
               at(operands, 0) + piece.output, row, at(operands, 1) + piece.filter, row, 0, matrix,
               unfolding.width());
      unfolding.fold(piece, matrix, dx);
    });
  };
  return make_kernel(run, unfolding.bytes());
}

KernelPointer compile_unfolded(const ConvolutionKernelGradientSpec& spec, const Context& context) {
  const Unfolding unfolding(spec.at);
  const std::int64_t row = spec.at.filters;
  const auto run = [=, threads = context.threads](void* const* operands) {
    float* matrix = at(operands, 3);
    unfolding.for_pieces([&](const Piece& piece) {
      unfolding.unfold(threads, piece, at(operands, 0), matrix);
      multiply('T', 'N', unfolding.width(), unfolding.filters(), piece.positions, matrix,
               unfolding.width(), at(operands, 1) + piece.output, row, piece.first ? 0.0f : 1.0f,
               at(operands, 2) + piece.filter, row);
    });
  };
  return make_kernel(run, unfolding.bytes());
}

}  // namespace meshwork::cpu
