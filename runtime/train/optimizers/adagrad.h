// Adagrad: gradients divided by the root of the sum of all their squares so far.
//
//     a += g^2;  w -= rate g / sqrt(a + epsilon)
//
// Duchi, Hazan and Singer, JMLR 12 (2011), with Keras's place of epsilon.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct AdagradOptions {
  Schedule learning_rate = 0.001;
  double initial_accumulator_value = 0.1;
  double epsilon = 1e-7;
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm;
  std::optional<double> clipvalue;
  std::optional<double> global_clipnorm;
  MovingAverage ema;
};

/// Slot: "accumulator". Throws `Error` for options out of range.
[[nodiscard]] Optimizer Adagrad(const AdagradOptions& options = {});

}  // namespace meshwork
