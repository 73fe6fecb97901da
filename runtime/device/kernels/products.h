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

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// Where narrow operands of products begin: at multiples of this many bytes.
constexpr std::int64_t narrow_alignment = 16;

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

  bool operator==(const MatmulSpec&) const = default;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const;
  void check() const;
  [[nodiscard]] std::vector<std::int64_t> operand_counts() const;
};

[[nodiscard]] constexpr bool writes_mask(const MatmulSpec& spec) {
  return spec.mask && spec.activation == Activation::relu;
}
/// Where c is among the operands, and how many there are without a workspace.
[[nodiscard]] constexpr int result_operand(const MatmulSpec& spec) {
  return spec.bias || spec.derivative != Activation::linear ? 3 : 2;
}
[[nodiscard]] constexpr int operand_count(const MatmulSpec& spec) {
  return result_operand(spec) + (spec.column_sums || writes_mask(spec) ? 2 : 1);
}

/// Of a relu mask of rows of `columns` elements: as cuBLASLt wants it, a multiple of 128 bits.
[[nodiscard]] constexpr std::int64_t relu_mask_row_bytes(std::int64_t columns) {
  return (columns + 127) / 128 * 16;
}

/// y (rows, columns) = activation(x + bias (columns)); activation elementwise (not softmax). May be
/// in place. Operands: x, bias, y.
struct BiasAddSpec {
  std::int64_t rows = 0, columns = 0;
  Activation activation = Activation::linear;
  [[nodiscard]] std::string text() const {
    return spec::sized("bias add", {rows, columns}) + spec::activated(activation);
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(2 * rows + 1, columns); }
  void check() const { spec::require_elementwise(activation, "bias add"); }
};

/// s (columns) = sum over rows of x (rows, columns). Operands: x, s.
struct ColumnSumSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("column sum", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows + 1, columns); }
};

}  // namespace meshwork
