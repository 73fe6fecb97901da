// ScheduleFreeAdamW: AdamW whose weights lie between where it steps and the mean of that, in place
// of a schedule that lowers the rate.
//
//     v += (g^2 - v) (1 - beta_2);  z -= rate g / (sqrt(v / (1 - beta_2^t)) + epsilon)
//     x += (z - x) / t;  w = (1 - beta_1) z + beta_1 x
//
// x and z begin as w, and x follows from w and z, so that it is not kept; t counts the updates so
// far, this one included. The rate rises over `warmup_steps`. Defazio et al., arXiv:2405.15682, who
// validate x; in Keras, and here, w stays the model's weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct ScheduleFreeAdamWOptions {
  Schedule learning_rate = 0.0025;
  double beta_1 = 0.9;    // above 0, below 1
  double beta_2 = 0.999;  // from 0, below 1
  double epsilon = 1e-8;
  std::int64_t warmup_steps = 0;
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm;
  std::optional<double> clipvalue;
  std::optional<double> global_clipnorm;
  MovingAverage ema;
};

/// Slots: "momentum", which is z, and "velocity". Throws `Error` for options out of range.
[[nodiscard]] Optimizer ScheduleFreeAdamW(const ScheduleFreeAdamWOptions& options = {});

}  // namespace meshwork
