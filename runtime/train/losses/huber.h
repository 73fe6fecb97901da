// Huber: (p - t)^2 / 2 where |p - t| <= delta, else delta |p - t| - delta^2 / 2; the mean over the
// last dimension, then over rows (keras.io/api/losses/regression_losses).
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct HuberOptions {
  double delta = 1;  // positive
  std::string name = "huber_loss";
};

/// Throws `Error` for options out of range.
[[nodiscard]] SharedLoss Huber(const HuberOptions& options = {});

}  // namespace meshwork
