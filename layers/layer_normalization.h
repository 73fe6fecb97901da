// LayerNormalization and RMSNormalization: each row of the last dimension normalized by itself.
#pragma once

#include <string>

#include "layers/initializers/ones.h"
#include "layers/initializers/zeros.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct LayerNormalizationOptions {
  std::string name;
  int axis = -1;          // the dimension that is normalized: the last, and no other
  double epsilon = 1e-3;  // added to the variance
  bool center = true;     // add beta
  bool scale = true;      // multiply by gamma
  bool trainable = true;  // if not, gamma and beta stay as they are
  Initializer beta_initializer = Zeros();
  Initializer gamma_initializer = Ones();
  Regularizer beta_regularizer;
  Regularizer gamma_regularizer;
  Constraint beta_constraint;
  Constraint gamma_constraint;
};

/// y = (x - mean) * gamma / sqrt(variance + epsilon) + beta, with mean and population variance over
/// the last dimension of each row (Ba, Kiros and Hinton, arXiv:1607.06450;
/// keras.io/api/layers/normalization_layers/layer_normalization). Variables, each as long as that
/// dimension: `gamma` if `scale`, `beta` if `center`. Throws `Error` for an epsilon that is not
/// positive; when called, for an input of fewer than two dimensions.
[[nodiscard]] SharedLayer LayerNormalization(LayerNormalizationOptions options = {});

struct RMSNormalizationOptions {
  std::string name;
  int axis = -1;          // the dimension that is normalized: the last, and no other
  double epsilon = 1e-6;  // added to the mean square
  bool trainable = true;  // if not, the scale stays as it is
};

/// y = x * scale / sqrt(mean of x^2 + epsilon), over the last dimension of each row (Zhang and
/// Sennrich, arXiv:1910.07467; keras.io/api/layers/normalization_layers/rms_normalization).
/// Variable: `scale`, as long as that dimension, ones at first. Throws as LayerNormalization.
[[nodiscard]] SharedLayer RMSNormalization(RMSNormalizationOptions options = {});

}  // namespace meshwork
