// Lion: steps of one size a parameter, by the sign of a running mean of gradients.
//
//     w -= rate sign(beta_1 m + (1 - beta_1) g);  m = beta_2 m + (1 - beta_2) g
//
// Chen et al., arXiv:2302.06675. Its learning rate is a third to a tenth of Adam's, as a rule.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct LionOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;   // above 0, to 1
  double beta_2 = 0.99;  // from 0 to 1
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm;
  std::optional<double> clipvalue;
  std::optional<double> global_clipnorm;
  MovingAverage ema;
};

/// Slot: "momentum". Throws `Error` for options out of range.
[[nodiscard]] Optimizer Lion(const LionOptions& options = {});

}  // namespace meshwork
