// Adadelta: gradients scaled by the ratio of two running root mean squares, of steps and of
// gradients.
//
//     a = rho a + (1 - rho) g^2;  d = g sqrt(b + epsilon) / sqrt(a + epsilon)
//     b = rho b + (1 - rho) d^2;  w -= rate d
//
// Zeiler, arXiv:1212.5701, which has the rate 1.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct AdadeltaOptions {
  Schedule learning_rate = 0.001;
  double rho = 0.95;  // from 0 to 1
  double epsilon = 1e-7;
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm;
  std::optional<double> clipvalue;
  std::optional<double> global_clipnorm;
  MovingAverage ema;
};

/// Slots: "accumulated_grad" and "accumulated_delta_var". Throws `Error` for options out of range.
[[nodiscard]] Optimizer Adadelta(const AdadeltaOptions& options = {});

}  // namespace meshwork
