// Adam, and AdamW, which is Adam with a weight decay by default.
//
//     m += (g - m) (1 - beta_1);  v += (g^2 - v) (1 - beta_2);  w -= a m / (sqrt(v) + epsilon)
//     with a = rate sqrt(1 - beta_2^t) / (1 - beta_1^t), t the updates so far, this one included;
//     amsgrad: the running maximum of v in its place
//
// Epsilon is added to the uncorrected root, as in Keras. Kingma and Ba, arXiv:1412.6980 (end of
// section 2); Loshchilov and Hutter, arXiv:1711.05101; Reddi et al., arXiv:1904.09237.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct AdamOptions {
  Schedule learning_rate = 0.001;
  double beta_1 = 0.9;    // from 0, below 1
  double beta_2 = 0.999;  // from 0, below 1
  double epsilon = 1e-7;
  bool amsgrad = false;
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm;
  std::optional<double> clipvalue;
  std::optional<double> global_clipnorm;
  MovingAverage ema;
};

struct AdamWOptions {
  Schedule learning_rate = 0.001;
  std::optional<double> weight_decay = 0.004;
  std::vector<std::string> exclude_from_weight_decay;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  std::optional<double> clipnorm;
  std::optional<double> clipvalue;
  std::optional<double> global_clipnorm;
  MovingAverage ema;
};

/// Slots: "m", "v" and, with amsgrad, "v_max". Throws `Error` for options out of range.
[[nodiscard]] Optimizer Adam(const AdamOptions& options = {});
[[nodiscard]] Optimizer AdamW(const AdamWOptions& options = {});

}  // namespace meshwork
