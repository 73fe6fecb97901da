// Cross-entropy against a weight for every class: -sum of t log(p).
//
// Predictions (batch, ..., classes) are probabilities, as in Keras where nothing is said, or
// logits; targets have the same shape: one-hot, or any distribution. Label smoothing s takes t (1 -
// s) + s / classes for t. Classes may be split over ranks (class_crossentropy.h).
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct CategoricalCrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;  // from 0 to 1
  std::string name = "categorical_crossentropy";
};

/// Throws `Error` for a smoothing outside [0, 1].
[[nodiscard]] SharedLoss CategoricalCrossentropy(
    const CategoricalCrossentropyOptions& options = {});

}  // namespace meshwork
