// Mean absolute error: |p - t|, the mean over the last dimension, then over rows. The derivative
// where p equals t is 0.
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct MeanAbsoluteErrorOptions {
  static constexpr const char* about = "|p - t|";
  std::string name = "mean_absolute_error";
};

[[nodiscard]] SharedLoss MeanAbsoluteError(const MeanAbsoluteErrorOptions& options = {});

}  // namespace meshwork
