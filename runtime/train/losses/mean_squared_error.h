// Mean squared error: (p - t)^2, the mean over the last dimension, then over rows
// (keras.io/api/losses/regression_losses).
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct MeanSquaredErrorOptions {
  static constexpr const char* about = "(p - t)^2";
  std::string name = "mean_squared_error";
};

[[nodiscard]] SharedLoss MeanSquaredError(const MeanSquaredErrorOptions& options = {});

}  // namespace meshwork
