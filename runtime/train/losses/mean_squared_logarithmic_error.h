// Mean squared logarithmic error: (log(1 + p) - log(1 + t))^2 with p and t at least 1e-7, the mean
// over the last dimension, then over rows (keras.io/api/losses/regression_losses).
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct MeanSquaredLogarithmicErrorOptions {
  static constexpr const char* about = "(log(1 + p) - log(1 + t))^2";
  std::string name = "mean_squared_logarithmic_error";
};

[[nodiscard]] SharedLoss MeanSquaredLogarithmicError(
    const MeanSquaredLogarithmicErrorOptions& options = {});

}  // namespace meshwork
