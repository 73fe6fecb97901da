// Activation: a function applied to what another layer gives.
//
// In C++ it is called ActivationLayer, since `Activation` is the choice of the function; in
// configurations and paths it has Keras's name.
#pragma once

#include <string>

#include "runtime/device/kernels/activation.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct ActivationLayerOptions {
  std::string name;
  Activation activation = Activation::linear;
};

/// y = activation(x), element by element; softmax is over the last dimension of an input of two
/// dimensions or more. No variables.
[[nodiscard]] SharedLayer ActivationLayer(ActivationLayerOptions options = {});

/// `activation` has to be given, as in Keras.

}  // namespace meshwork
