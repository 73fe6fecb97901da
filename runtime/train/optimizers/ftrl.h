// Ftrl: follow the regularized leader, for sparse models of many features.
//
//     n = a + g^2;  z += g + 2 l2_shrinkage w - (n^-p - a^-p) / rate w;  a = n
//     w = (clip(z, -l1, l1) - z) / (n^-p / rate + 2 (l2 + beta / (2 rate)))
//
// with p the `learning_rate_power`. A rate of 0 has no meaning. Where |z| <= l1, w is 0. McMahan et
// al., "Ad Click Prediction: a View from the Trenches" (2013); shrinkage as in Keras.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct FtrlOptions {
  Schedule learning_rate = 0.001;
  double learning_rate_power = -0.5;  // at most 0
  double initial_accumulator_value = 0.1;
  double l1_regularization_strength = 0;
  double l2_regularization_strength = 0;
  double l2_shrinkage_regularization_strength = 0;
  double beta = 0;
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm;
  std::optional<double> clipvalue;
  std::optional<double> global_clipnorm;
  MovingAverage ema;
};

/// Slots: "accumulator" and "linear". Throws `Error` for options out of range.
[[nodiscard]] Optimizer Ftrl(const FtrlOptions& options = {});

}  // namespace meshwork
