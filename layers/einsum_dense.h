// EinsumDense: the einsum of the input and a kernel, then a bias and an activation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layers/initializers/glorot.h"
#include "layers/initializers/zeros.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct EinsumDenseOptions {
  std::string name;
  std::string equation;  // "abc,cd->abd", of the input and the kernel; has to be given
  std::vector<std::optional<std::int64_t>> output_shape;  // without the batch; none: the input's
  std::optional<std::string> bias_axes;  // letters of the output that have a bias: its last
  Activation activation = Activation::linear;
  Initializer kernel_initializer = GlorotUniform();
  Initializer bias_initializer = Zeros();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  Constraint kernel_constraint;
  Constraint bias_constraint;
  bool trainable = true;
};

/// y = activation(einsum(equation, x, kernel) + bias)
/// (keras.io/api/layers/core_layers/einsum_dense). "...": further dimensions of the input, before
/// all others or behind them, which the output has in the same place. Fans of the kernel are what
/// is summed and what comes out. Variables: `kernel`, with a dimension for each letter, and `bias`.
/// Throws `Error` for an equation that is none; when called, for inputs that do not fit it.
[[nodiscard]] SharedLayer EinsumDense(EinsumDenseOptions options);

}  // namespace meshwork
