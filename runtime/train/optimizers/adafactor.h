// Adafactor: steps along gradients divided by the root of the mean of their squares, which is that
// of two vectors for a matrix.
//
//     beta = 1 - t^beta_2_decay;  r, c = beta r, c + (1 - beta) means of rows, columns of
//         (g^2 + epsilon_1);  v = r c^T / mean(r)
//     u = g / sqrt(v)
//     w -= min(rate, 1 / sqrt(t)) max(epsilon_2, rms(w)) u / max(1, rms(u) / clip_threshold)
//
// for the last two dimensions of a variable. One of a single dimension has v = beta v + (1 - beta)
// (g^2 + epsilon_1). rms is the root of the mean square; t counts the updates so far, this one
// included. All means are those of whole variables, whatever their layout: ranks add up their
// parts. Shazeer and Stern, arXiv:1804.04235; as in Keras.
//
// The slot has v, as Keras's has, and not r and c: they are the means of v's rows and columns, for
// r and c have one mean. So it lies as the variable does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct AdafactorOptions {
  Schedule learning_rate = 0.001;
  double beta_2_decay = -0.8;  // at most 0
  double epsilon_1 = 1e-30;
  double epsilon_2 = 1e-3;
  double clip_threshold = 1;
  std::optional<double> weight_decay;
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm;
  std::optional<double> clipvalue;
  std::optional<double> global_clipnorm;
  MovingAverage ema;
};

/// Slot: "factored_velocity". Throws `Error` for options out of range.
[[nodiscard]] Optimizer Adafactor(const AdafactorOptions& options = {});

}  // namespace meshwork
