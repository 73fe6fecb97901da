// Flatten: all dimensions of a sample become one.
#pragma once

#include <string>

#include "runtime/graph/layer.h"
#include "runtime/graph/layer_registry.h"

namespace meshwork {

struct FlattenOptions {
  std::string name;
};

/// y (batch, product of the dimensions of a sample), the elements in row-major order; an input of
/// shape (batch) becomes (batch, 1). No variables.
[[nodiscard]] SharedLayer Flatten(FlattenOptions options = {});

[[nodiscard]] SharedLayer flatten_from_config(const ConfigNode& node,
                                              const LayerRegistry& registry);

}  // namespace meshwork
