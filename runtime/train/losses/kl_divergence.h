// Kullback-Leibler divergence: the sum over the last dimension of t log(t / p), both clipped to
// [1e-7, 1]; then the mean over rows (keras.io/api/losses/probabilistic_losses).
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct KLDivergenceOptions {
  static constexpr const char* about = "sum of t log(t / p), for distributions t";
  std::string name = "kl_divergence";
};

[[nodiscard]] SharedLoss KLDivergence(const KLDivergenceOptions& options = {});

}  // namespace meshwork
