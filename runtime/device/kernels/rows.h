// Rows: what softmax and rows of length 1 are made of.
//
// Where columns are split, a kernel does its part of them and the operation completes the row's
// value by a collective between two kernels. Where they are whole, one kernel does all of it.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// m (rows) = maximum over columns of x, -infinity for no columns. NaN counts as the maximum.
/// Operands: x, m.
struct RowMaximumSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("row maximum", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, columns + 1); }
};

/// e = exp(x - m), s (rows) = sum over columns of e. Operands: x, m, e, s.
struct RowExponentialSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("row exponential", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 2 * columns + 2); }
};

/// y = e / s. Operands: e, s, y.
struct RowDivideSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("row divide", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 2 * columns + 1); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};

/// s (rows) = sum over columns of x. Operands: x, s.
struct RowSumSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("row sum", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, columns + 1); }
};

/// r (rows) = sum over columns of a * b. Operands: a, b, r.
struct RowDotSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("row dot", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 2 * columns + 1); }
};

/// dx = y * (dy - r), the gradient of softmax with r = RowDot(y, dy). `whole`: r is found on the
/// way, and is no operand. Operands: y, dy, [r], dx.
struct SoftmaxGradientSpec {
  std::int64_t rows = 0, columns = 0;
  bool whole = false;
  [[nodiscard]] std::string text() const {
    return spec::sized("softmax gradient", {rows, columns}) + spec::words({{whole, "whole"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 3 * columns + (whole ? 0 : 1)); }
};

/// y = x * min(1 / sqrt(s), limit): rows of length 1, of s = RowDot(x, x).
/// Operands: x, s, y.
struct UnitRowSpec {
  std::int64_t rows = 0, columns = 0;
  float limit = 0;
  [[nodiscard]] std::string text() const { return spec::sized("unit row", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 2 * columns + 1); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};
/// dx = (dy - y * r) * min(1 / sqrt(s), limit), with r = RowDot(y, dy), which counts as 0 where the
/// factor is `limit`. Operands: y, dy, s, r, dx.
struct UnitRowGradientSpec {
  std::int64_t rows = 0, columns = 0;
  float limit = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("unit row gradient", {rows, columns});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 3 * columns + 2); }
  [[nodiscard]] InPlace in_place() const { return {{1}}; }
};

/// y (rows, columns) = x (columns) in each row. Operands: x, y.
struct RepeatRowsSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("repeat rows", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows + 1, columns); }
};

/// y = softmax(x): RowMaximumSpec, RowExponentialSpec and RowDivideSpec in one.
/// Operands: x, y.
struct SoftmaxSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("softmax", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 2 * columns); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};

}  // namespace meshwork
