// Cross-entropies in which well predicted samples count little
// (keras.io/api/losses/probabilistic_losses; Lin et al., arXiv:1708.02002).
//
// The binary one is the binary cross-entropy times (1 - q)^gamma, with q = t p + (1 - t)(1 - p);
// with `apply_class_balancing` times t alpha + (1 - t)(1 - alpha) too; the mean over the last
// dimension, then over rows. The categorical one is the sum over classes of -alpha (1 - q)^gamma t
// log(q), with q = p / sum of p, or softmax of logits. Probabilities are clipped to [1e-7, 1 -
// 1e-7] for logarithms.
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct BinaryFocalCrossentropyOptions {
  bool apply_class_balancing = false;
  double alpha = 0.25;  // from 0 to 1
  double gamma = 2;     // not negative
  bool from_logits = false;
  double label_smoothing = 0;  // from 0 to 1
  std::string name = "binary_focal_crossentropy";
};
struct CategoricalFocalCrossentropyOptions {
  double alpha = 0.25;  // from 0 to 1
  double gamma = 2;     // not negative
  bool from_logits = false;
  double label_smoothing = 0;  // from 0 to 1
  std::string name = "categorical_focal_crossentropy";
};

/// Throws `Error` for options out of range.
[[nodiscard]] SharedLoss BinaryFocalCrossentropy(
    const BinaryFocalCrossentropyOptions& options = {});
/// Throws `Error` for options out of range.
[[nodiscard]] SharedLoss CategoricalFocalCrossentropy(
    const CategoricalFocalCrossentropyOptions& options = {});

}  // namespace meshwork
