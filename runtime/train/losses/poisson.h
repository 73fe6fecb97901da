// Poisson: p - t log(p + 1e-7), for counts t and their expected values p; the mean over the last
// dimension, then over rows (keras.io/api/losses/probabilistic_losses).
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct PoissonOptions {
  static constexpr const char* about = "p - t log(p), for counts t";
  std::string name = "poisson";
};

[[nodiscard]] SharedLoss Poisson(const PoissonOptions& options = {});

}  // namespace meshwork
