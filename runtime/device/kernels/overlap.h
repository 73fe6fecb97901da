// Losses of how much predictions and targets overlap, which follow from sums over dimensions.
//
// Sums are float64: of p t, of p and of t. A result is what is left of (outer, middle, inner) when
// the middle is summed; `folded`: the outer too.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/host_device.h"
#include "runtime/device/kernels/middle.h"
#include "runtime/device/kernels/page.h"

namespace meshwork {

/// Of the three sums of a result 1 - sum(p t) / (sum(p t) + alpha sum((1 - p) t) + beta sum(p (1 - t))
/// + epsilon).
struct OverlapFunction {
  double alpha = 0.5, beta = 0.5, epsilon = 1e-7;
  [[nodiscard]] MESHWORK_HOST_DEVICE double below(const double* sums) const {
    return (1.0 - alpha - beta) * sums[0] + beta * sums[1] + alpha * sums[2] + epsilon;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE double loss(const double* sums) const {
    return 1.0 - sums[0] / below(sums);
  }
  /// By a p.
  [[nodiscard]] MESHWORK_HOST_DEVICE double slope(double t, const double* sums) const {
    const double under = below(sums);
    return (sums[0] / under * ((1.0 - alpha - beta) * t + beta) - t) / under;
  }
};

/// Operands: p, t, sums (outer, inner, 3).
struct OverlapSumsSpec {
  MiddleExtents at;
  [[nodiscard]] std::string text() const { return at.text("overlap sums"); }
  [[nodiscard]] KernelWork work() const { return at.work(2, 6); }
};
/// y (inner) = sum over the rows of x (rows, inner), float64. Operands: x, y.
struct FoldedSumsSpec {
  std::int64_t rows = 0, inner = 0;
  [[nodiscard]] std::string text() const { return spec::sized("folded sums", {rows, inner}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(inner, 2 * rows + 2); }
};
/// loss (float64 scalar) = scale * sum of the results' losses times their weights, one for each
/// `results_a_weight`. Operands: sums (results, 3), [weights], loss.
struct OverlapLossSpec {
  std::int64_t results = 0;
  OverlapFunction function = {};
  double scale = 1;
  std::int64_t results_a_weight = 0;  // 0: no weights
  [[nodiscard]] std::string text() const {
    return spec::sized("overlap loss", {results}) +
           spec::words({{results_a_weight > 0, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::passes(6, results); }
};
/// dp = scale * weight * slope. Operands: t, sums, [weights], dp.
struct OverlapGradientSpec {
  MiddleExtents at;
  OverlapFunction function = {};
  float scale = 1;
  bool folded = false;
  std::int64_t results_a_weight = 0;  // 0: no weights
  [[nodiscard]] std::string text() const {
    return at.text("overlap gradient") +
           spec::words({{folded, "folded"}, {results_a_weight > 0, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const { return at.work(2, 7); }
};

}  // namespace meshwork
