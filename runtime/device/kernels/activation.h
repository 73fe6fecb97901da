// Activations that kernels apply, alone or behind what they compute.
#pragma once

#include <cstdint>
#include <string_view>

namespace meshwork {

/// Formulas: keras.io/api/layers/activations; gelu is the exact one, x * Phi(x).
enum class Activation : std::uint8_t { linear, relu, gelu, sigmoid, tanh, softmax };

/// "relu" and so on, as Keras names them.
[[nodiscard]] std::string_view name_of(Activation activation);

}  // namespace meshwork
