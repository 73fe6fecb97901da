// Matrix products, and what they take along: bias and activation forward, their gradients backward.
//
// A dense layer y = activation(x * kernel + bias) has three products. Each can do the small work
// that begins or ends where it does, on numbers that it has in hand anyway:
//   y = activation(x * kernel + bias)
//   dx = (dy * transpose(kernel)) * activation'   where x is the output of another activation
//   dkernel = transpose(x) * dy, and dbias = the sums over the columns of dy: a bias is a row of
//   the kernel whose input is always 1, so this is one more row of the same product.
//
// What the derivative of relu needs of y is one bit an element. A *relu mask* of a result (m, n) is
// m rows of `relu_mask_row_bytes(n)` bytes: bit j % 8 of byte j / 8 says whether element j is above
// 0; bits behind the last element mean nothing. It begins at a multiple of 16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// Where narrow operands of products begin: at multiples of this many bytes.
constexpr std::int64_t narrow_alignment = 16;

/// One of the indices over which a product is repeated: how many there are, and elements from one
/// to the next in each matrix; 0 in a or b where all read the same.
struct MatmulRepeat {
  std::int64_t count = 1;
  std::int64_t a = 0, b = 0, c = 0;
  bool operator==(const MatmulRepeat&) const = default;
};

/// So many of these at most.
constexpr std::size_t most_matmul_repeats = 4;

/// c (m, n) = activation(op(a) (m, k) * op(b) (k, n) + bias (n)); with `accumulate`, c += instead
/// (then without all that follows). op transposes: a is stored (k, m) if transpose_a, b (n, k) if
/// transpose_b. Activation: linear, relu; with relu and `mask` the mask of c is written too. k = 0
/// gives the bias alone.
/// Or, without bias and activation, one of
///   `derivative`    c = (op(a) * op(b)) * derivative'(value), element by element; value (m, n) is
///                   what ActivationGradientSpec says or, of relu with `mask`, a relu mask;
///   `column_sums`   beside c, s (n) = the sum over k of b, which is not transposed. In
///                   float32 alone: elsewhere libraries may sum what the product has rounded.
/// With `narrow`, in bfloat16 alone, a and b are stored as NarrowSpec leaves them, aligned to
/// `narrow_alignment`: what is multiplied several times is rounded once.
/// Rows of a stored matrix lie `a_row`, `b_row`, `c_row` elements apart; 0: side by side. With
/// `repeats`, outermost first, there is a product for each combination of their indices. A product
/// with either takes nothing along, and all its results together are one packed array.
/// Operands: a, b, [bias or value], c, [mask or s].
struct MatmulSpec {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  bool bias = false;
  Activation activation = Activation::linear;
  Precision precision = Precision::float32;
  bool narrow = false;
  Activation derivative = Activation::linear;
  bool column_sums = false;
  bool mask = false;
  std::int64_t a_row = 0, b_row = 0, c_row = 0;
  std::vector<MatmulRepeat> repeats = {};

  bool operator==(const MatmulSpec&) const = default;
  /// Whether it is one product of packed matrices.
  [[nodiscard]] bool plain() const {
    return repeats.empty() && a_row == 0 && b_row == 0 && c_row == 0;
  }
  /// Elements from the beginning of a stored matrix's row to that of the next.
  [[nodiscard]] std::int64_t a_stride() const { return a_row != 0 ? a_row : transpose_a ? m : k; }
  [[nodiscard]] std::int64_t b_stride() const { return b_row != 0 ? b_row : transpose_b ? k : n; }
  [[nodiscard]] std::int64_t c_stride() const { return c_row != 0 ? c_row : n; }
  /// Elements from the first that is read, or written, to the last.
  [[nodiscard]] std::int64_t a_count() const;
  [[nodiscard]] std::int64_t b_count() const;
  [[nodiscard]] std::int64_t c_count() const;
  /// How many products it is.
  [[nodiscard]] std::int64_t products() const;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string details() const;
  [[nodiscard]] KernelWork work() const;
  void check() const;
  [[nodiscard]] std::vector<std::int64_t> operand_counts() const;
};

/// Whether it adds up anything.
[[nodiscard]] inline bool has_terms(const MatmulSpec& spec) {
  return spec.a_count() > 0 && spec.b_count() > 0 && spec.c_count() > 0;
}

/// body(a, b, c) with where the matrices of each product begin, in order.
template <class Body>
void for_each_product(const MatmulSpec& spec, const Body& body) {
  const std::int64_t products = spec.products();
  for (std::int64_t product = 0; product < products; ++product) {
    std::int64_t rest = product, a = 0, b = 0, c = 0;
    for (std::size_t r = spec.repeats.size(); r-- > 0;) {
      const MatmulRepeat& repeat = spec.repeats[r];
      const std::int64_t index = rest % repeat.count;
      rest /= repeat.count;
      a += index * repeat.a, b += index * repeat.b, c += index * repeat.c;
    }
    body(a, b, c);
  }
}

[[nodiscard]] inline bool writes_mask(const MatmulSpec& spec) {
  return spec.mask && spec.activation == Activation::relu;
}
/// Where c is among the operands, and how many there are without a workspace.
[[nodiscard]] inline int result_operand(const MatmulSpec& spec) {
  return spec.bias || spec.derivative != Activation::linear ? 3 : 2;
}
[[nodiscard]] inline int operand_count(const MatmulSpec& spec) {
  return result_operand(spec) + (spec.column_sums || writes_mask(spec) ? 2 : 1);
}

/// Of a relu mask of rows of `columns` elements: as cuBLASLt wants it, a multiple of 128 bits.
[[nodiscard]] constexpr std::int64_t relu_mask_row_bytes(std::int64_t columns) {
  return (columns + 127) / 128 * 16;
}

/// y (rows, columns) = activation(x + bias (columns)); activation elementwise (not softmax).
/// Operands: x, bias, y.
struct BiasAddSpec {
  std::int64_t rows = 0, columns = 0;
  Activation activation = Activation::linear;
  [[nodiscard]] std::string text() const {
    return spec::sized("bias add", {rows, columns}) + spec::activated(activation);
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(2 * rows + 1, columns); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
  void check() const { spec::require_elementwise(activation, "bias add"); }
};

/// s (columns) = sum over rows of x (rows, columns). Operands: x, s.
struct ColumnSumSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("column sum", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows + 1, columns); }
};

}  // namespace meshwork
