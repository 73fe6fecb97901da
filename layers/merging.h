// Merging layers: several values of one shape made one, element by element. The sum is add.h.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct MergingOptions {
  std::string name;
};

/// Called on a list of inputs of one shape. No variables. Throws `Error` when called on inputs of
/// different shapes.
///   Multiply: x_0 * x_1 * ...        Average: (x_0 + x_1 + ...) / how many
///   Maximum, Minimum: of x_0, x_1, ...; of equal ones the first gets the gradient
///   Subtract: x_0 - x_1; of two inputs
[[nodiscard]] SharedLayer Multiply(MergingOptions options = {});
[[nodiscard]] SharedLayer Average(MergingOptions options = {});
[[nodiscard]] SharedLayer Maximum(MergingOptions options = {});
[[nodiscard]] SharedLayer Minimum(MergingOptions options = {});
[[nodiscard]] SharedLayer Subtract(MergingOptions options = {});

}  // namespace meshwork
