// Reshape: the elements of a sample in the same order, with other dimensions.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct ReshapeOptions {
  std::string name;
  Shape target_shape;  // of a sample, without the batch; one length may be -1: what remains
};

/// y (batch, target_shape...), the elements in row-major order. No variables. Throws `Error` for a
/// length that is neither positive nor -1 and for a second -1; when called, for an input whose
/// samples have another number of elements.
[[nodiscard]] SharedLayer Reshape(ReshapeOptions options = {});

}  // namespace meshwork
