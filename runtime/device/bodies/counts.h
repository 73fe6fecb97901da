// Counts and sums of which metrics are made, for the loops of any device. A thread counts one bin,
// over all predictions: without atomic additions, which give doubles in no fixed order. Few
// thresholds are bound by memory traffic; 200 of them by comparisons.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "runtime/device/body_forms.h"
#include "runtime/device/folds.h"
#include "runtime/device/kernels/counts.h"
#include "runtime/device/kernels/row_losses.h"

namespace meshwork::bodies {

/// `apart`: with a stride that is not 1.
template <bool apart>
struct ThresholdCounts {
  using Fold = folds::Sum;
  const float *p, *t;
  double* counts;
  const float* limits;  // of bin b: above limits[b], not above limits[b + 1]
  std::int64_t bins, stride;
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(std::int64_t row, std::int64_t j,
                                                 std::int64_t) const {
    const bool of_wanted = row < bins;
    const std::int64_t bin = of_wanted ? row : row - bins;
    const std::int64_t i = apart ? j * stride : j;
    const bool inside = ((bin == 0) | (p[i] > limits[bin])) & !(p[i] > limits[bin + 1]);
    return inside & ((t[i] != 0.0f) == of_wanted) ? 1.0 : 0.0;
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, double count) const { counts[row] = count; }
};

template <bool apart, class Loops>
auto threshold_counts(const ThresholdCountsSpec& spec, const auto& context) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> limits{-infinity};
  limits.insert(limits.end(), spec.thresholds.begin(), spec.thresholds.end());
  limits.push_back(infinity);
  return Loops::rows(context, 2 * spec.bins(), spec.count, 8,
                     [bins = spec.bins(), stride = spec.stride,
                      table = Loops::table(context, limits)](void* const* operands) {
                       const void* above = table->data();
                       return ThresholdCounts<apart>{at(operands, 0),
                                                     at(operands, 1),
                                                     at<double>(operands, 2),
                                                     static_cast<const float*>(above),
                                                     bins,
                                                     stride};
                     });
}

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

template <bool of_maxima>
struct ColumnChoices {
  using Fold = folds::Added<Sums<3>>;
  const float *p, *t, *m;
  double* sums;
  float threshold;
  std::int64_t columns;
  [[nodiscard]] MESHWORK_HOST_DEVICE bool is_chosen(std::int64_t i) const {
    constexpr float next_to_0 = 1e-9f;
    if constexpr (of_maxima) {
      return (p[i] >= m[i / columns]) & (fabsf(p[i]) > next_to_0);
    } else {
      return p[i] > threshold;
    }
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE Sums<3> term(std::int64_t, std::int64_t i) const {
    const double chosen = is_chosen(i) ? 1.0 : 0.0, target = static_cast<double>(t[i]);
    return {{chosen * target, chosen, target}};
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t column, const Sums<3>& of_column) const {
    for (int k = 0; k < 3; ++k) sums[column * 3 + k] = of_column.values[k];
  }
};
template <bool of_maxima, class Loops>
auto column_choices(const ColumnChoicesSpec& spec, const auto& context) {
  return Loops::middle(context, spec.at, [spec](void* const* operands) {
    return ColumnChoices<of_maxima>{at(operands, 0), at(operands, 1),
                                    at(operands, 2), at<double>(operands, of_maxima ? 3 : 2),
                                    spec.threshold,  spec.at.inner};
  });
}

template <class Class>
struct ClassPairs {
  using Fold = folds::Added<Sums<3>>;
  const Class *p, *t;
  double* counts;
  std::int64_t classes, ignored;
  [[nodiscard]] MESHWORK_HOST_DEVICE bool is_class(Class x) const {
    return (x > Class(-1)) & (x < static_cast<Class>(classes));
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE Sums<3> term(std::int64_t row, std::int64_t j,
                                                  std::int64_t) const {
    if (!is_class(p[j]) || !is_class(t[j])) return {{0.0, 0.0, 0.0}};
    const auto of_p = static_cast<std::int64_t>(p[j]), of_t = static_cast<std::int64_t>(t[j]);
    const double counted = of_t == ignored ? 0.0 : 1.0;
    const double in_p = of_p == row ? counted : 0.0, in_t = of_t == row ? counted : 0.0;
    return {{in_p * in_t, in_p, in_t}};
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, const Sums<3>& of_class) const {
    for (int k = 0; k < 3; ++k) counts[row * 3 + k] = of_class.values[k];
  }
};
template <class Class, class Loops>
auto class_pairs(const ClassPairsSpec& spec, const auto& context) {
  return Loops::rows(context, spec.classes, spec.count, 8, [spec](void* const* operands) {
    return ClassPairs<Class>{at<const Class>(operands, 0), at<const Class>(operands, 1),
                             at<double>(operands, 2), spec.classes, spec.ignored};
  });
}

/// Whether x in column i is larger than y in column j, as LargestEndSpec says.
[[nodiscard]] MESHWORK_HOST_DEVICE inline bool is_larger(float x, std::int64_t i, float y,
                                                         std::int64_t j) {
  const bool equal = is_maximum(x, y);
  return equal ? i < j : (x > y) | is_nan(x);
}
struct LargestEnd {
  const float* x;
  float* least;
  std::int32_t* column;
  std::int64_t columns, k;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t row) const {
    const float* of_row = x + row * columns;
    std::int64_t end = -1;
    for (std::int64_t place = 0; place < (k < columns ? k : columns); ++place) {
      // The largest of those that are smaller than the last.
      std::int64_t next = -1;
      for (std::int64_t j = 0; j < columns; ++j) {
        const bool below = end < 0 || is_larger(of_row[end], end, of_row[j], j);
        if (below && (next < 0 || is_larger(of_row[j], j, of_row[next], next))) next = j;
      }
      end = next;
    }
    least[row] = end < 0 ? 0.0f : of_row[end];
    column[row] = static_cast<std::int32_t>(end);
  }
};
struct LargestOnly {
  const float *x, *least;
  const std::int32_t* column;
  float* y;
  std::int64_t columns;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / columns;
    const bool below = is_larger(least[row], column[row], x[i], i - row * columns);
    y[i] = below ? -std::numeric_limits<float>::infinity() : x[i];
  }
};

template <class Loops>
void add_counts(auto& kernels) {
  kernels.template add<ThresholdCountsSpec>(
      [](const ThresholdCountsSpec& spec, const auto& context) {
        return spec.stride == 1 ? threshold_counts<false, Loops>(spec, context)
                                : threshold_counts<true, Loops>(spec, context);
      });
  kernels.template add<ColumnSquaresSpec>([](const ColumnSquaresSpec& spec, const auto& context) {
    return Loops::middle(context, spec.at, [](void* const* operands) {
      return ColumnSquares{at(operands, 0), at(operands, 1), at<double>(operands, 2)};
    });
  });
  kernels.template add<ColumnChoicesSpec>([](const ColumnChoicesSpec& spec, const auto& context) {
    return spec.of_maxima ? column_choices<true, Loops>(spec, context)
                          : column_choices<false, Loops>(spec, context);
  });
  kernels.template add<ClassPairsSpec>([](const ClassPairsSpec& spec, const auto& context) {
    return spec.of_values ? class_pairs<float, Loops>(spec, context)
                          : class_pairs<std::int32_t, Loops>(spec, context);
  });
  kernels.template add<LargestEndSpec>([](const LargestEndSpec& spec, const auto& context) {
    return Loops::elements(context, spec.rows, 4 * spec.columns * spec.k,
                           [spec](void* const* operands) {
                             return LargestEnd{at(operands, 0), at(operands, 1),
                                               at<std::int32_t>(operands, 2), spec.columns, spec.k};
                           });
  });
  kernels.template add<LargestOnlySpec>([](const LargestOnlySpec& spec, const auto& context) {
    return Loops::elements(
        context, spec.rows * spec.columns, 8, [columns = spec.columns](void* const* operands) {
          return LargestOnly{at(operands, 0), at(operands, 1), at<const std::int32_t>(operands, 2),
                             at(operands, 3), columns};
        });
  });
}

}  // namespace meshwork::bodies
