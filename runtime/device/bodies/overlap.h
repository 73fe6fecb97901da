// Losses of overlap (kernels/overlap.h), for the loops of any device. Bound by memory traffic.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/class_functions.h"
#include "runtime/device/folds.h"
#include "runtime/device/kernels/overlap.h"
#include "runtime/device/kernels/row_losses.h"

namespace meshwork::bodies {

struct OverlapSums {
  using Fold = folds::Added<Sums<3>>;
  const float *p, *t;
  double* sums;
  [[nodiscard]] MESHWORK_HOST_DEVICE Sums<3> term(std::int64_t, std::int64_t i) const {
    const double of_p = static_cast<double>(p[i]), of_t = static_cast<double>(t[i]);
    return {{of_p * of_t, of_p, of_t}};
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t result, const Sums<3>& all) const {
    for (int k = 0; k < 3; ++k) sums[result * 3 + k] = all.values[k];
  }
};
struct FoldedSums {
  using Fold = folds::Sum;
  const double* x;
  double* y;
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(std::int64_t, std::int64_t i) const {
    return x[i];
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t result, double sum) const { y[result] = sum; }
};
struct OverlapLoss {
  const double* sums;
  RowWeights weights;
  OverlapFunction function;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t result) const {
    return weights.of(result, function.loss(sums + 3 * result));
  }
};
struct OverlapGradient {
  const float* t;
  const double* sums;
  RowWeights weights;
  float* dp;
  OverlapFunction function;
  float scale;
  std::int64_t folded_into;  // results; 0: none are folded
  [[nodiscard]] MESHWORK_HOST_DEVICE float share(std::int64_t result) const {
    return weights.of(result, scale);
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, std::int64_t result, float share) const {
    const std::int64_t of = folded_into > 0 ? result % folded_into : result;
    dp[i] = share * static_cast<float>(function.slope(static_cast<double>(t[i]), sums + 3 * of));
  }
};

template <class Loops>
void add_overlap(auto& kernels) {
  kernels.template add<OverlapSumsSpec>([](const OverlapSumsSpec& spec, const auto& context) {
    return Loops::middle(context, spec.at, [](void* const* operands) {
      return OverlapSums{at(operands, 0), at(operands, 1), at<double>(operands, 2)};
    });
  });
  kernels.template add<FoldedSumsSpec>([](const FoldedSumsSpec& spec, const auto& context) {
    return Loops::middle(
        context, {.outer = 1, .middle = spec.rows, .inner = spec.inner}, [](void* const* operands) {
          return FoldedSums{at<const double>(operands, 0), at<double>(operands, 1)};
        });
  });
  kernels.template add<OverlapLossSpec>([](const OverlapLossSpec& spec, const auto& context) {
    const bool weighted = spec.results_a_weight > 0;
    return Loops::sum(context, spec.results, 24, weighted ? 3 : 2, spec.scale,
                      [spec, weighted](void* const* operands) {
                        return OverlapLoss{
                            at<const double>(operands, 0),
                            {weighted ? at(operands, 1) : nullptr, spec.results_a_weight},
                            spec.function};
                      });
  });
  kernels.template add<OverlapGradientSpec>(
      [](const OverlapGradientSpec& spec, const auto& context) {
        const bool weighted = spec.results_a_weight > 0;
        return Loops::spread(context, spec.at, 8, [spec, weighted](void* const* operands) {
          return OverlapGradient{at(operands, 0),
                                 at<const double>(operands, 1),
                                 {weighted ? at(operands, 2) : nullptr, spec.results_a_weight},
                                 at(operands, weighted ? 3 : 2),
                                 spec.function,
                                 spec.scale,
                                 spec.folded ? spec.at.inner : 0};
        });
      });
}

}  // namespace meshwork::bodies
