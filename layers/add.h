// Add: the sum of several values, as in residual connections.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct AddOptions {
  std::string name;
};

/// y = x_0 + x_1 + ...; called on a list of inputs of one shape. No variables. Throws `Error` when
/// called on inputs of different shapes.
[[nodiscard]] SharedLayer Add(AddOptions options = {});

}  // namespace meshwork
