// Dense: every output is a weighted sum of all features, y = activation(x * kernel + bias).
#pragma once

#include <cstdint>
#include <string>

#include "layers/initializers/glorot.h"
#include "layers/initializers/zeros.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct DenseOptions {
  std::string name;
  std::int64_t units = 0;  // length of the output's last dimension; has to be given
  Activation activation = Activation::linear;
  bool use_bias = true;
  Initializer kernel_initializer = GlorotUniform();
  Initializer bias_initializer = Zeros();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  Constraint kernel_constraint;
  Constraint bias_constraint;
  bool trainable = true;
};

/// y (batch, ..., units) = activation(x (batch, ..., features) * kernel (features, units) + bias
/// (units)), on the last dimension of an input of two dimensions or more. Variables: `kernel`, and
/// `bias` if `use_bias`. Throws `Error` if `units` is not positive; when called, for an input of
/// fewer dimensions.
[[nodiscard]] SharedLayer Dense(DenseOptions options = {});

}  // namespace meshwork
