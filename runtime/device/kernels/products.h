// Matrix products, and the bias behind them.
#pragma once

#include <cstdint>

#include "runtime/device/kernels/activation.h"
#include "runtime/device/kernels/precision.h"

namespace meshwork {

/// c (m, n) = activation(op(a) (m, k) * op(b) (k, n) + bias (n)); with `accumulate`, c += instead
/// (then without bias and activation). op transposes: a is stored (k, m) if transpose_a, b (n, k)
/// if transpose_b. Activation: linear, relu. Operands: a, b, [bias], c. k = 0 gives the bias alone.
/// With `narrow`, in bfloat16 alone, a and b are stored as NarrowSpec leaves them, at addresses
/// that are multiples of 16: what is multiplied several times is rounded once.
struct MatmulSpec {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  bool bias = false;
  Activation activation = Activation::linear;
  Precision precision = Precision::float32;
  bool narrow = false;
};

/// y (rows, columns) = activation(x + bias (columns)); activation elementwise (not softmax). May be
/// in place. Operands: x, bias, y.
struct BiasAddSpec {
  std::int64_t rows = 0, columns = 0;
  Activation activation = Activation::linear;
};

/// s (columns) = sum over rows of x (rows, columns). Operands: x, s.
struct ColumnSumSpec {
  std::int64_t rows = 0, columns = 0;
};

}  // namespace meshwork
