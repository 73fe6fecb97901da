// Mean absolute error: |p - t|, the mean over the last dimension, then over rows. The derivative
// where p equals t is 0.
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct MeanAbsoluteErrorOptions {
  std::string name = "mean_absolute_error";
};

[[nodiscard]] SharedLoss MeanAbsoluteError(const MeanAbsoluteErrorOptions& options = {});

}  // namespace meshwork
