// Rows: what softmax is made of.
//
// Where columns are split, a kernel does its part of them and the operation completes the row's
// value by a collective between two kernels. Where they are whole, one kernel does all of it.
#pragma once

#include <cstdint>

namespace meshwork {

/// m (rows) = maximum over columns of x, -infinity for no columns. NaN counts as the maximum.
/// Operands: x, m.
struct RowMaximumSpec {
  std::int64_t rows = 0, columns = 0;
};

/// e = exp(x - m), s (rows) = sum over columns of e. Operands: x, m, e, s.
struct RowExponentialSpec {
  std::int64_t rows = 0, columns = 0;
};

/// y = e / s. May be in place. Operands: e, s, y.
struct RowDivideSpec {
  std::int64_t rows = 0, columns = 0;
};

/// s (rows) = sum over columns of x. Operands: x, s.
struct RowSumSpec {
  std::int64_t rows = 0, columns = 0;
};

/// r (rows) = sum over columns of a * b. Operands: a, b, r.
struct RowDotSpec {
  std::int64_t rows = 0, columns = 0;
};

/// dx = y * (dy - r), the gradient of softmax with r = RowDot(y, dy). `whole`: r is found on the
/// way, and is no operand. Operands: y, dy, [r], dx.
struct SoftmaxGradientSpec {
  std::int64_t rows = 0, columns = 0;
  bool whole = false;
};

/// y = softmax(x): RowMaximumSpec, RowExponentialSpec and RowDivideSpec in one. May be in place.
/// Operands: x, y.
struct SoftmaxSpec {
  std::int64_t rows = 0, columns = 0;
};

}  // namespace meshwork
