// Lamb: Adam whose steps are as long as the variables that take them, for large batches.
//
//     m += (g - m) (1 - beta_1);  v += (g^2 - v) (1 - beta_2)
//     d = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon);  w -= rate |w| / |d| d
//
// with norms of whole variables, whatever their layout, and a ratio of 1 where either is 0; t
// counts the updates so far, this one included. You et al., arXiv:1904.00962, without its bounds of
// norms, as in Keras.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct LambOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;    // from 0, below 1
  double beta_2 = 0.999;  // from 0, below 1
  double epsilon = 1e-7;
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm;
  std::optional<double> clipvalue;
  std::optional<double> global_clipnorm;
  MovingAverage ema;
};

/// Slots: "momentum" and "velocity". Throws `Error` for options out of range.
[[nodiscard]] Optimizer Lamb(const LambOptions& options = {});

}  // namespace meshwork
