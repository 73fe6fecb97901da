// Activations that kernels apply, alone or behind what they compute.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace meshwork {

/// Under Keras's names, but gelu_tanh: its gelu with approximate=True. One more elementwise activation
/// is a function in device/activation_functions.h; softmax, which looks at rows, stays the last.
enum class Activation : std::uint8_t {
  linear,
  relu,
  relu6,
  leaky_relu,
  elu,
  selu,
  gelu,
  gelu_tanh,
  silu,
  mish,
  sigmoid,
  log_sigmoid,
  hard_sigmoid,
  sparse_sigmoid,
  hard_silu,
  tanh,
  hard_tanh,
  tanh_shrink,
  softsign,
  softplus,
  squareplus,
  sparse_plus,
  exponential,
  soft_shrink,
  hard_shrink,
  softmax
};

/// All, in the order above.
[[nodiscard]] std::span<const Activation> all_activations();

/// "relu" and so on.
[[nodiscard]] std::string_view name_of(Activation activation);

/// Whether the derivative can be told from the output; else it is told from the input. Only these
/// can be joined to the operation before, which keeps no value from before the activation.
[[nodiscard]] bool differentiable_from_output(Activation activation);

/// Whether a larger number never becomes a smaller one, whatever is rounded.
[[nodiscard]] bool keeps_order(Activation activation);

}  // namespace meshwork
