// Counts and sums of which metrics are made, for the loops of any device. A thread counts one bin,
// over all predictions: without atomic additions, which give doubles in no fixed order. Few
// thresholds are bound by memory traffic; 200 of them by comparisons.
#pragma once

#include <limits>
#include <vector>

#include "runtime/device/body_forms.h"
#include "runtime/device/folds.h"
#include "runtime/device/kernels/counts.h"
#include "runtime/device/kernels/row_losses.h"

namespace meshwork::bodies {

struct ThresholdCounts {
  using Fold = folds::Sum;
  const float *p, *t;
  double* counts;
  const float* limits;  // of bin b: above limits[b], not above limits[b + 1]
  std::int64_t bins;
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(std::int64_t row, std::int64_t j,
                                                 std::int64_t) const {
    const bool of_wanted = row < bins;
    const std::int64_t bin = of_wanted ? row : row - bins;
    const bool inside = ((bin == 0) | (p[j] > limits[bin])) & !(p[j] > limits[bin + 1]);
    return inside & ((t[j] != 0.0f) == of_wanted) ? 1.0 : 0.0;
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, double count) const { counts[row] = count; }
};

struct ColumnSquares {
  using Fold = folds::Added<Sums<3>>;
  const float *p, *t;
  double* sums;
  [[nodiscard]] MESHWORK_HOST_DEVICE Sums<3> term(std::int64_t, std::int64_t i) const {
    const double target = static_cast<double>(t[i]);
    const double difference = target - static_cast<double>(p[i]);
    return {{target, target * target, difference * difference}};
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t column, const Sums<3>& of_column) const {
    for (int k = 0; k < 3; ++k) sums[column * 3 + k] = of_column.values[k];
  }
};

template <class Loops>
void add_counts(auto& kernels) {
  kernels.template add<ThresholdCountsSpec>(
      [](const ThresholdCountsSpec& spec, const auto& context) {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        std::vector<float> limits{-infinity};
        limits.insert(limits.end(), spec.thresholds.begin(), spec.thresholds.end());
        limits.push_back(infinity);
        return Loops::rows(
            context, 2 * spec.bins(), spec.count, 8,
            [bins = spec.bins(), table = Loops::table(context, limits)](void* const* operands) {
              const void* above = table->data();
              return ThresholdCounts{at(operands, 0), at(operands, 1), at<double>(operands, 2),
                                     static_cast<const float*>(above), bins};
            });
      });
  kernels.template add<ColumnSquaresSpec>([](const ColumnSquaresSpec& spec, const auto& context) {
    return Loops::middle(context, spec.at, [](void* const* operands) {
      return ColumnSquares{at(operands, 0), at(operands, 1), at<double>(operands, 2)};
    });
  });
}

}  // namespace meshwork::bodies
