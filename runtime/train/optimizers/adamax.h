// Adamax: Adam with a running maximum of gradients in place of the root mean square.
//
//     m += (g - m) (1 - beta_1);  u = max(beta_2 u, |g|);  w -= rate / (1 - beta_1^t) m / (u + epsilon)
//
// t counts the updates so far, this one included. Kingma and Ba, arXiv:1412.6980, section 7.1.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct AdamaxOptions {
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

/// Slots: "m" and "u". Throws `Error` for options out of range.
[[nodiscard]] Optimizer Adamax(const AdamaxOptions& options = {});

}  // namespace meshwork
