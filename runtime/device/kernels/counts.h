// Counts and sums of which metrics are made, several at once in float64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/kernels/middle.h"
#include "runtime/device/kernels/page.h"

namespace meshwork {

/// How many predictions lie between which thresholds, of the targets that are not 0, and then of
/// those that are. With n thresholds, ascending, a prediction is in bin b of n + 1 if it is above b
/// of them; a NaN is above none. Operands: p, t, counts (2, n + 1).
struct ThresholdCountsSpec {
  std::int64_t count = 0;
  std::vector<float> thresholds;
  [[nodiscard]] std::int64_t bins() const {
    return static_cast<std::int64_t>(thresholds.size()) + 1;
  }
  [[nodiscard]] std::string text() const {
    return spec::sized("threshold counts", {count, bins()});
  }
  [[nodiscard]] KernelWork work() const {
    return spec::elements(2 * static_cast<double>(count) + 4 * static_cast<double>(bins()));
  }
};

/// Of each of `at.inner` columns of (outer, middle, inner), outer 1: the sums of t, of t^2 and of
/// (t - p)^2. Operands: p, t, sums (inner, 3).
struct ColumnSquaresSpec {
  MiddleExtents at;
  [[nodiscard]] std::string text() const { return at.text("column squares"); }
  [[nodiscard]] KernelWork work() const { return at.work(2, 6); }
};

}  // namespace meshwork
