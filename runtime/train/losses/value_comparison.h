// Losses and metrics that compare value by value: what a row gives is the mean over its values.
//
// Rule "bk,bk->", or "bk,bk,b->" with weights: every axis splits what it likes, the sum is partial
// over all of them, and the gradient of a block follows from that block alone. So a loss of this
// kind is two kernels, and a metric one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/device/kernel_spec.h"
#include "runtime/graph/lowering.h"
#include "runtime/train/losses/loss.h"

namespace meshwork {

/// The kernels of one, booked for `count` values of this rank.
struct ValueKernels {
  /// Writes scale * sum of what all values give. Operands: prediction, target, [weights], sum;
  /// there are weights, each of `values_a_weight` values, where that is not 0.
  std::function<KernelSpec(std::int64_t count, double scale, std::int64_t values_a_weight)> sum;
  /// Books scale * the derivative of each value's loss, without weights, into the gradient of input
  /// 0. Metrics have none.
  std::function<void(Lowering& lowering, std::int64_t count, double scale)> gradient;
  double flops = 3;       // a value
  bool sums_row = false;  // what a row gives is the sum over its values, not the mean
};

/// A loss, or a metric of which more is better, called `name`. `kind` names its operation; `binary`
/// as in make_loss.
[[nodiscard]] SharedLoss make_value_loss(std::string name, std::string kind, ValueKernels kernels,
                                         Predictions predictions = Predictions::any,
                                         bool binary = false);
[[nodiscard]] SharedMetric make_value_metric(std::string name, std::string kind,
                                             ValueKernels kernels,
                                             Predictions predictions = Predictions::any);

}  // namespace meshwork
