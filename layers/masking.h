// Masking: places of a sequence that hold one value throughout do not count.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct MaskingOptions {
  std::string name;
  float mask_value = 0;
};

/// y = x (batch, ..., features), and 0 where all features of a place are `mask_value`. y has a mask
/// (runtime/graph/operations/mask.h) that counts the other places
/// (keras.io/api/layers/core_layers/masking). When called, throws `Error` for an input without
/// places.
[[nodiscard]] SharedLayer Masking(MaskingOptions options = {});

}  // namespace meshwork
