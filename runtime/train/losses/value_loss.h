// Losses that compare value by value: the loss of a row is the mean over its values.
//
// Rule "bk,bk->": every axis splits what it likes, the sum is partial over all of them, and the
// gradient of a block follows from that block alone. So a loss of this kind is two kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/device/kernel_spec.h"
#include "runtime/graph/lowering.h"
#include "runtime/train/losses/loss.h"

namespace meshwork {

/// The kernels of one loss, booked for `count` values of this rank.
struct ValueLossKernels {
  /// Writes scale * sum of the losses of all values. Operands: prediction, target, loss.
  std::function<KernelSpec(std::int64_t count, double scale)> sum;
  /// Books scale * the derivative of each value's loss, into the gradient of input 0.
  std::function<void(Lowering& lowering, std::int64_t count, double scale)> gradient;
};

/// A loss called `name` of such kernels. `kind` names its operation.
[[nodiscard]] SharedLoss make_value_loss(std::string name, std::string kind,
                                         ValueLossKernels kernels);

}  // namespace meshwork
