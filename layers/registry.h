// The layers that Meshwork is built with, by the names that configurations use.
#pragma once

#include "runtime/graph/layer_registry.h"

namespace meshwork {

/// Adds all of them: one for every file of this folder, and Sequential, a block of layers with a
/// name of its own: `Sequential: {name: features, layers: [...]}`.
void register_layers(LayerRegistry& registry);

}  // namespace meshwork
