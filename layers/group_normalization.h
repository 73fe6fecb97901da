// GroupNormalization: groups of channels of each sample brought to mean 0 and variance 1, then
// scaled.
#pragma once

#include <cstdint>
#include <string>

#include "layers/initializers/ones.h"
#include "layers/initializers/zeros.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct GroupNormalizationOptions {
  std::string name;
  std::int64_t groups = 32;  // of channels side by side; -1: each channel by itself
  int axis = -1;             // the dimension of the channels: the last, and no other
  double epsilon = 1e-3;     // added to the variance
  bool center = true;        // add beta
  bool scale = true;         // multiply by gamma
  Initializer beta_initializer = Zeros();
  Initializer gamma_initializer = Ones();
  Regularizer beta_regularizer;
  Regularizer gamma_regularizer;
  Constraint beta_constraint;
  Constraint gamma_constraint;
  bool trainable = true;
};

/// y = (x - mean) * gamma / sqrt(variance + epsilon) + beta, with mean and population variance over
/// the channels of a group, at all places of a sample together (Wu and He, arXiv:1803.08494;
/// keras.io/api/layers/normalization_layers/group_normalization). Variables, each (channels):
/// `gamma` if `scale`, `beta` if `center`. Throws `Error`, when called, for channels that `groups`
/// does not divide.
[[nodiscard]] SharedLayer GroupNormalization(GroupNormalizationOptions options = {});

}  // namespace meshwork
