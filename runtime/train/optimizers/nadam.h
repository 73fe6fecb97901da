// Nadam: Adam with Nesterov's momentum.
//
//     mu_k = beta_1 (1 - 0.96^k / 2);  P the product of mu_1 to mu_t
//     m += (g - m) (1 - beta_1);  v += (g^2 - v) (1 - beta_2)
//     M = mu_(t+1) m / (1 - P mu_(t+1)) + (1 - mu_t) g / (1 - P);  V = v / (1 - beta_2^t)
//     w -= rate M / (sqrt(V) + epsilon)
//
// t counts the updates so far, this one included. P follows from t: nothing is kept for it.
// Dozat, "Incorporating Nesterov Momentum into Adam" (2016).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct NadamOptions {
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

/// Slots: "m" and "v". Throws `Error` for options out of range.
[[nodiscard]] Optimizer Nadam(const NadamOptions& options = {});

}  // namespace meshwork
