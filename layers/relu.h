// ReLU: max(x, 0), as a layer of its own.
#pragma once

#include <string>

#include "runtime/graph/layer.h"
#include "runtime/graph/layer_registry.h"

namespace meshwork {

struct ReLUOptions {
  std::string name;
};

/// y = max(x, 0), element by element. No variables. In paths it is "re_lu", as in Keras.
[[nodiscard]] SharedLayer ReLU(ReLUOptions options = {});

[[nodiscard]] SharedLayer relu_from_config(const ConfigNode& node, const LayerRegistry& registry);

}  // namespace meshwork
