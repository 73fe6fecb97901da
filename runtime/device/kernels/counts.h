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
/// of them; a NaN is above none. Of p and t one value in each `stride` is counted, `count` in all.
/// Operands: p, t, counts (2, n + 1).
struct ThresholdCountsSpec {
  std::int64_t count = 0;
  std::vector<float> thresholds;
  std::int64_t stride = 1;
  [[nodiscard]] std::int64_t bins() const {
    return static_cast<std::int64_t>(thresholds.size()) + 1;
  }
  [[nodiscard]] std::string text() const {
    return spec::sized("threshold counts", {count, bins()}) + spec::words({{stride > 1, "apart"}});
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

/// Of each of `at.inner` columns of (outer, middle, inner), outer 1: the sums of c t, of c and of t,
/// where c is 1 for a chosen p, else 0. Chosen is what is above the threshold; with `of_maxima`
/// what equals the maximum m of its row, but for numbers next to 0. Operands: p, t, [m], sums
/// (inner, 3).
struct ColumnChoicesSpec {
  MiddleExtents at;
  bool of_maxima = false;
  float threshold = 0;
  [[nodiscard]] std::string text() const {
    return at.text("column choices") + spec::words({{of_maxima, "of maxima"}});
  }
  [[nodiscard]] KernelWork work() const { return at.work(2, 6); }
};

/// Of each class below `classes`: how many of `count` pairs (p, t) of classes say it twice, in p and
/// in t. Pairs of which one is no class, or t is the class `ignored`, do not count. Classes are
/// int32, or with `of_values` float32, cut to integers. Operands: p, t, counts (classes, 3).
struct ClassPairsSpec {
  std::int64_t count = 0, classes = 0;
  std::int64_t ignored = -1;
  bool of_values = false;
  [[nodiscard]] std::string text() const {
    return spec::sized("class pairs", {count, classes}) + spec::words({{of_values, "of values"}});
  }
  [[nodiscard]] KernelWork work() const {
    return spec::elements(2 * static_cast<double>(count) + 6 * static_cast<double>(classes));
  }
};

/// Where the k largest values of each row end: the least of them and its column; of equal values
/// the lower column is the larger. A NaN is larger than any number. Without k columns, those of
/// the least there is. Operands: x (rows, columns), least (rows), column (rows, int32).
struct LargestEndSpec {
  std::int64_t rows = 0, columns = 0, k = 1;
  [[nodiscard]] std::string text() const { return spec::sized("largest", {rows, columns, k}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, columns + 2); }
};
/// y = x where it is no less than the least of its row's largest, which is in `column`, else
/// -infinity. Operands: x (rows, columns), least (rows), column (rows, int32), y (rows, columns).
struct LargestOnlySpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("largest only", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 2 * columns + 2); }
};

}  // namespace meshwork
