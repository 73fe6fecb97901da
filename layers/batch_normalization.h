// BatchNormalization: channels brought to mean 0 and variance 1 over the batch, then scaled.
#pragma once

#include <string>

#include "layers/initializers/ones.h"
#include "layers/initializers/zeros.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct BatchNormalizationLayerOptions {
  std::string name;
  int axis = -1;           // the dimension of the channels: the last, and no other
  double momentum = 0.99;  // of the moving values
  double epsilon = 1e-3;   // added to the variance
  bool center = true;      // add beta
  bool scale = true;       // multiply by gamma
  /// If not, the layer is frozen: gamma and beta are not trained, and in training too the moving
  /// values are used and left alone.
  bool trainable = true;
  Initializer beta_initializer = Zeros();
  Initializer gamma_initializer = Ones();
  Initializer moving_mean_initializer = Zeros();
  Initializer moving_variance_initializer = Ones();
  Regularizer beta_regularizer;
  Regularizer gamma_regularizer;
  Constraint beta_constraint;
  Constraint gamma_constraint;
};

/// y = (x - mean) * gamma / sqrt(variance + epsilon) + beta, channel by channel, on the last
/// dimension of an input of two dimensions or more. In training mean and population variance are
/// those of the whole global batch over all other dimensions, however it is spread, and moving =
/// momentum * moving + (1 - momentum) * batch; otherwise the moving values are used
/// (keras.io/api/layers/normalization_layers/batch_normalization). Variables, each (channels):
/// `gamma` if `scale`, `beta` if `center`, `moving_mean` and `moving_variance`. Throws `Error` for
/// a momentum outside [0, 1] or an epsilon that is not positive; when called, for an input of fewer
/// dimensions.
[[nodiscard]] SharedLayer BatchNormalization(BatchNormalizationLayerOptions options = {});

}  // namespace meshwork
