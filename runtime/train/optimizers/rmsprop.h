// RMSprop: gradients divided by a running root mean square.
//
//     v = rho v + (1 - rho) g^2;  d = v, centered: v - (running mean of g)^2
//     u = rate g / sqrt(d + epsilon);  w -= u, or with momentum m = momentum m + u, w -= m
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct RMSpropOptions {
  Schedule learning_rate = 0.001;
  double rho = 0.9;     // from 0 to 1
  double momentum = 0;  // from 0 to 1
  double epsilon = 1e-7;
  bool centered = false;
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm;
  std::optional<double> clipvalue;
  std::optional<double> global_clipnorm;
  MovingAverage ema;
};

/// Slots: "velocity", "momentum" if it is not 0, "average_gradient" if centered. Throws `Error` for
/// options out of range.
[[nodiscard]] Optimizer RMSprop(const RMSpropOptions& options = {});

}  // namespace meshwork
