// Rows brought to mean 0 and mean square 1: layer normalization and its kin.
//
// Of x (rows, columns). Of each row, over all `count` columns that ranks have of it:
//   mean = centered ? sum of x / count : 0
//   inverse = 1 / sqrt(sum of x^2 / count - mean^2 + epsilon)
//   y = (x - mean) * inverse * gamma + beta
// Where the columns are whole, one kernel does that: RowNormalize. Where they are split, it is
// RowMoments, all-reduce of z, RowStatistics, RowNormalize of `known` rows. Backward is
// RowNormalizeGradient, or RowGradientSums, all-reduce of w, RowNormalizeGradient of `known` rows;
// and RowNormalizeVariables for gamma and beta, which have one number a column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/device/kernels/page.h"

namespace meshwork {

struct RowNormalization {
  std::int64_t rows = 0, columns = 0;
  std::int64_t count = 0;  // of all columns of a row
  bool centered = true;    // subtract the mean
  bool scale = true;       // there is a gamma
  bool center = true;      // there is a beta
  double epsilon = 1e-3;

  [[nodiscard]] std::string text(std::string_view name, bool known = false) const {
    return spec::sized(name, {rows, columns}) + spec::words({{known, "known"}});
  }
};

/// z (rows, 2; float64) = { sum of x, sum of x^2 } over the columns. Squares of float32 are exact
/// in float64. Operands: x, z.
struct RowMomentsSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("row moments", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, columns + 4); }
};

/// From z, summed over all ranks: mean, inverse (rows each). Operands: z, mean, inverse.
struct RowStatisticsSpec {
  RowNormalization at;
  [[nodiscard]] std::string text() const { return spec::sized("row statistics", {at.rows}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(at.rows, 6); }
};

/// y, and mean and inverse (rows each), which are read instead where they are `known`.
/// Operands: x, mean, inverse, [gamma], [beta], y.
struct RowNormalizeSpec {
  RowNormalization at;
  bool known = false;
  [[nodiscard]] std::string text() const { return at.text("row normalize", known); }
  [[nodiscard]] KernelWork work() const { return spec::rows(at.rows, 2 * at.columns + 2); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};

/// w (rows, 2; float64) = { sum of g, sum of g * (x - mean) * inverse } over the columns, where g =
/// dy * gamma. Operands: x, mean, inverse, [gamma], dy, w.
struct RowGradientSumsSpec {
  RowNormalization at;
  [[nodiscard]] std::string text() const { return at.text("row gradient sums"); }
  [[nodiscard]] KernelWork work() const { return spec::rows(at.rows, 2 * at.columns + 6); }
};

/// dx = inverse * (g - (centered ? w0 / count : 0) - (x - mean) * inverse * w1 / count), with w
/// found on the way, or read where it is `known`. Operands: x, mean, inverse, [gamma], dy, [w, known], dx.
struct RowNormalizeGradientSpec {
  RowNormalization at;
  bool known = false;
  [[nodiscard]] std::string text() const { return at.text("row normalize gradient", known); }
  [[nodiscard]] KernelWork work() const { return spec::rows(at.rows, 3 * at.columns + 2); }
  [[nodiscard]] InPlace in_place() const { return {{at.scale ? 4 : 3}}; }
};

/// dgamma = sum of dy * (x - mean) * inverse, dbeta = sum of dy, over the rows. Operands: x, mean,
/// inverse, dy, [dgamma, scale], [dbeta, center].
struct RowNormalizeVariablesSpec {
  RowNormalization at;
  [[nodiscard]] std::string text() const { return at.text("row normalize variables"); }
  [[nodiscard]] KernelWork work() const { return spec::rows(at.rows, 2 * at.columns + 2); }
};

}  // namespace meshwork
