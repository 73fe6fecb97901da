// Cross-entropy over classes: -sum of t log(p), t the weight of each class in the target.
//
// Predictions (batch, ..., classes) are probabilities, as in Keras where nothing is said, or
// logits. The sparse kind takes class numbers (batch, ...) or (batch, ..., 1), whose class has all
// the weight. Rows of the class `ignore_class`, which may be any number, do not count. The other
// kind takes the weights, of the prediction's shape: one-hot, or any distribution. Its label
// smoothing s takes t (1 - s) + s / classes for t. Classes may be split over ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct SparseCategoricalCrossentropyOptions {
  static constexpr const char* about = "-log(p) of the right class, for class numbers";
  bool from_logits = false;
  std::optional<std::int64_t> ignore_class = {};  // in int32
  std::string name = "sparse_categorical_crossentropy";
};
struct CategoricalCrossentropyOptions {
  static constexpr const char* about = "-sum of t log(p), for a weight t of each class";
  bool from_logits = false;
  double label_smoothing = 0;  // from 0 to 1
  std::string name = "categorical_crossentropy";
};

/// Throws `Error` for an ignored class that is no int32.
[[nodiscard]] SharedLoss SparseCategoricalCrossentropy(
    const SparseCategoricalCrossentropyOptions& options = {});
/// Throws `Error` for a smoothing outside [0, 1].
[[nodiscard]] SharedLoss CategoricalCrossentropy(
    const CategoricalCrossentropyOptions& options = {});

}  // namespace meshwork
