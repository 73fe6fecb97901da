// Muon: steps along matrices whose singular values are brought near 1, and Adam for all else.
//
//     m = momentum m + g;  M = g + momentum m (nesterov), or m
//     w -= rate rms_rate sqrt(max(rows, columns)) orthogonal(M)
//
// for variables of two dimensions, but not embeddings, nor what `exclude_layers` match. The rest is
// updated as by Adam (adam.h), decayed by `adam_weight_decay`. The matrix is that of the whole
// variable: ranks that have parts of it gather it, and each makes all of the step. Jordan et al.,
// kellerjordan.github.io/posts/muon; Liu et al., arXiv:2502.16982; as in Keras.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

struct MuonOptions {
  Schedule learning_rate = 0.001;
  double adam_beta_1 = 0.9;    // from 0, below 1
  double adam_beta_2 = 0.999;  // from 0, below 1
  std::optional<double> adam_weight_decay = 0.004;
  double epsilon = 1e-7;  // of Adam
  std::optional<double> weight_decay = 0.004;
  std::vector<std::string> exclude_from_weight_decay;
  std::optional<double> clipnorm;
  std::optional<double> clipvalue;
  std::optional<double> global_clipnorm;
  MovingAverage ema;
  std::vector<std::string> exclude_layers;  // regular expressions, found in a variable's path
  bool exclude_embeddings = true;           // whose path has "embedding" in it
  double muon_a = 3.4445, muon_b = -4.7750, muon_c = 2.0315;  // of the iteration
  double momentum = 0.95;
  std::int64_t ns_steps = 5;  // iterations
  bool nesterov = true;
  std::optional<double> rms_rate = 0.2;  // none: steps are not made larger by the matrix's size
};

/// Slots: "muon_momentum", Adam's m or the sum, and "v", which is 0 for matrices. Throws `Error`
/// for options out of range.
[[nodiscard]] Optimizer Muon(const MuonOptions& options = {});

}  // namespace meshwork
