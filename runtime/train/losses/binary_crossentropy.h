// Binary cross-entropy: -t log(p) - (1 - t) log(1 - p), the mean over the last dimension, then over
// rows.
//
// Predictions are probabilities, clipped to [1e-7, 1 - 1e-7], or logits. Label smoothing s takes t
// (1 - s) + s / 2 for t.
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct BinaryCrossentropyOptions {
  static constexpr const char* about =
      "-t log(p) - (1 - t) log(1 - p), for targets between 0 and 1";
  bool from_logits = false;
  double label_smoothing = 0;  // from 0 to 1
  std::string name = "binary_crossentropy";
};

/// Throws `Error` for a smoothing outside [0, 1].
[[nodiscard]] SharedLoss BinaryCrossentropy(const BinaryCrossentropyOptions& options = {});

}  // namespace meshwork
