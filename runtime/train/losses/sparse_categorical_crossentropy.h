// Cross-entropy against class numbers: -log of the probability of the right class.
//
// Predictions (batch, ..., classes) are probabilities, as in Keras where nothing is said, or
// logits; targets (batch, ...) or (batch, ..., 1). Classes may be split over ranks
// (class_crossentropy.h).
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;
  std::string name = "sparse_categorical_crossentropy";
};

[[nodiscard]] SharedLoss SparseCategoricalCrossentropy(
    const SparseCategoricalCrossentropyOptions& options = {});

}  // namespace meshwork
