// The logarithm of the hyperbolic cosine of the error, log(cosh(p - t)); the mean over the last
// dimension, then over rows (keras.io/api/losses/regression_losses).
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct LogCoshOptions {
  static constexpr const char* about = "log(cosh(p - t))";
  std::string name = "log_cosh";
};

[[nodiscard]] SharedLoss LogCosh(const LogCoshOptions& options = {});

}  // namespace meshwork
