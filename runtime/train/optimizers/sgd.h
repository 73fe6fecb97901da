// Stochastic gradient descent, with momentum and Nesterov's form of it.
//
//     m = momentum m - rate g;  w = w + m;   nesterov: w = w + momentum m - rate g, with the new m
//
// Without momentum w = w - rate g. The rate sits inside the buffer, as in Keras, so that a changed
// rate leaves the history as it was.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct SGDOptions {
  Schedule learning_rate = 0.01;
  double momentum = 0;  // from 0 to 1
  bool nesterov = false;
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm;
  std::optional<double> clipvalue;
  std::optional<double> global_clipnorm;
  MovingAverage ema;
};

/// Slots: "momentum", if it is not 0. Throws `Error` for options out of range.
[[nodiscard]] Optimizer SGD(const SGDOptions& options = {});

}  // namespace meshwork
