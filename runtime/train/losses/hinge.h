// Hinge losses, for predictions whose sign or largest value decides
// (keras.io/api/losses/hinge_losses).
//
// Hinge is max(1 - t p, 0) and SquaredHinge its square, the mean over the last dimension, then over
// rows. t is -1 or 1; a 0 stands for -1. Keras takes zeros so only in batches of zeros and ones
// alone, of which the loss of a sample would depend on others. CategoricalHinge is max(1 + m - s,
// 0), m the largest (1 - t) p of a row and s its sum of t p, for one-hot t; then the mean over
// rows.
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct HingeOptions {
  static constexpr const char* about = "max(1 - t p, 0), for targets of -1 or 1";
  std::string name = "hinge";
};
struct SquaredHingeOptions {
  static constexpr const char* about = "the square of max(1 - t p, 0), for targets of -1 or 1";
  std::string name = "squared_hinge";
};
struct CategoricalHingeOptions {
  static constexpr const char* about = "max(largest wrong class - right class + 1, 0)";
  std::string name = "categorical_hinge";
};

[[nodiscard]] SharedLoss Hinge(const HingeOptions& options = {});
[[nodiscard]] SharedLoss SquaredHinge(const SquaredHingeOptions& options = {});
[[nodiscard]] SharedLoss CategoricalHinge(const CategoricalHingeOptions& options = {});

}  // namespace meshwork
