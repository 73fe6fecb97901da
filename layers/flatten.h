// Flatten: all dimensions of a sample become one.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct FlattenOptions {
  std::string name;
};

/// y (batch, product of the dimensions of a sample), the elements in row-major order; an input of
/// shape (batch) becomes (batch, 1). No variables.
[[nodiscard]] SharedLayer Flatten(FlattenOptions options = {});

}  // namespace meshwork
