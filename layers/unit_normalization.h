// UnitNormalization: vectors along one dimension, made as long as 1.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct UnitNormalizationOptions {
  std::string name;
  int axis = -1;  // the dimension of the vectors, counted from the end if negative
};

/// y = x * min(1 / |x|, 1e12), with |x|^2 the sum of squares over one dimension. No variables.
/// Throws `Error`, when called, for a dimension that the input does not have, or its batch.
[[nodiscard]] SharedLayer UnitNormalization(UnitNormalizationOptions options = {});

}  // namespace meshwork
