// Generalized cross-entropy: of v, the probability of a row's class, (1 - v^q) / q; 0 without a
// class.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// loss (float64 scalar) = the sum of the rows' losses times their weights, one for each
/// `rows_a_weight`. Operands: classes (int32), v, [weights], loss.
struct GeneralizedCrossentropySpec {
  std::int64_t rows = 0, classes = 0;
  double q = 0.5;
  std::int64_t rows_a_weight = 0;  // 0: no weights
  [[nodiscard]] std::string text() const {
    return spec::sized("generalized crossentropy", {rows, classes}) +
           spec::words({{rows_a_weight > 0, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, rows); }
};
/// dp (rows, columns) = -scale * weight * v^(q - 1) at the class of the row, else 0; this rank's
/// columns begin at `first_class`. Operands: classes (int32), v, [weights], dp.
struct GeneralizedCrossentropyGradientSpec {
  std::int64_t rows = 0, columns = 0, first_class = 0;
  double q = 0.5;
  float scale = 1;
  std::int64_t rows_a_weight = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("generalized crossentropy gradient", {rows, columns}) +
           spec::words({{rows_a_weight > 0, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, columns + 2); }
};

}  // namespace meshwork
