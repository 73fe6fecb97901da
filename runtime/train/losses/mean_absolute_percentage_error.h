// Mean absolute percentage error: 100 |p - t| / max(|t|, 1e-7), the mean over the last dimension,
// then over rows (keras.io/api/losses/regression_losses).
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct MeanAbsolutePercentageErrorOptions {
  static constexpr const char* about = "100 |p - t| / |t|";
  std::string name = "mean_absolute_percentage_error";
};

[[nodiscard]] SharedLoss MeanAbsolutePercentageError(
    const MeanAbsolutePercentageErrorOptions& options = {});

}  // namespace meshwork
