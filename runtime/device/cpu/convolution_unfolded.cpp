// Convolutions as products with unfolded images.
//
// The windows of some lines of the output become the rows of a matrix (positions, window places *
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
#include "runtime/device/window_places.h"

namespace meshwork::cpu {

namespace {

/// Some lines of one sample's output, of one group: rows of all its planes, counted through.
struct Piece {
  bool first;                // of its group
  std::int64_t line, lines;  // of the output
  std::int64_t positions;    // in these lines
  std::int64_t input;        // offset of the sample's group in x
  std::int64_t output;       // offset of the lines' group in y
  std::int64_t filter;       // offset of the group in a row of the kernel
};

/// The windows of one sample's lines of the output, by group, as a matrix (positions, places *
/// channels of the group).
class Unfolding {
 public:
  explicit Unfolding(const ConvolutionShape& at)
      : at_(at),
        channels_(at.channels / at.groups),
        width_(kernel_count(at) / at.filters),
        all_lines_(at.planes.output * at.rows.output) {
    // As many lines as stay in the second cache together with their products.
    constexpr std::int64_t bytes_wanted = 512 * 1024;
    lines_ =
        std::clamp<std::int64_t>(bytes_wanted / (4 * width_ * at.columns.output), 1, all_lines_);
  }

  [[nodiscard]] std::int64_t bytes() const { return 4 * lines_ * at_.columns.output * width_; }
  [[nodiscard]] std::int64_t width() const { return width_; }
  [[nodiscard]] std::int64_t filters() const { return at_.filters / at_.groups; }

  /// body(piece) for pieces that cover the output of every group.
  template <class Body>
  void for_pieces(const Body& body) const {
    for (std::int64_t sample = 0; sample < at_.batch; ++sample) {
      for (std::int64_t line = 0; line < all_lines_; line += lines_) {
        const std::int64_t lines = std::min(lines_, all_lines_ - line);
        for (std::int64_t group = 0; group < at_.groups; ++group) {
          body(Piece{.first = sample == 0 && line == 0,
                     .line = line,
                     .lines = lines,
                     .positions = lines * at_.columns.output,
                     .input = sample * (input_count(at_) / at_.batch) + group * channels_,
                     .output = (sample * all_lines_ + line) * at_.columns.output * at_.filters +
                               group * filters(),
                     .filter = group * filters()});
        }
      }
    }
  }

  /// visit(input, matrix) for each place of each position's window: offsets of the first of
  /// a place's elements in a sample's group 0 and in the matrix; input is -1 in padding. A line
  /// of the output is one thread's.
  template <class Visit>
  void for_places(int threads, const Piece& piece, const Visit& visit) const {
    for_rows(threads, piece.lines, 8 * at_.columns.output * width_, [&](std::int64_t line) {
      const std::int64_t plane = (piece.line + line) / at_.rows.output;
      const std::int64_t row = (piece.line + line) % at_.rows.output;
      std::int64_t matrix = line * at_.columns.output * width_;
      for (std::int64_t column = 0; column < at_.columns.output; ++column) {
        for (std::int64_t q = 0; q < at_.planes.window; ++q) {
          const std::int64_t z = input_at(at_.planes, plane, q);
          for (std::int64_t r = 0; r < at_.rows.window; ++r) {
            const std::int64_t y = input_at(at_.rows, row, r);
            for (std::int64_t s = 0; s < at_.columns.window; ++s, matrix += channels_) {
              const std::int64_t x = input_at(at_.columns, column, s);
              const bool inside = z >= 0 && y >= 0 && x >= 0;
              visit(inside ? ((z * at_.rows.input + y) * at_.columns.input + x) * at_.channels : -1,
                    matrix);
            }
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
  std::int64_t channels_, width_, all_lines_, lines_ = 1;
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
