// Rescaling: y = x * scale + offset.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct RescalingOptions {
  std::string name;
  float scale = 1;  // 1.0f / 255 for images of bytes
  float offset = 0;
};

/// y = x * scale + offset for every element, in training and otherwise alike. No variables. Throws
/// `Error` if either is infinite or no number.
[[nodiscard]] SharedLayer Rescaling(RescalingOptions options = {});

/// `scale` has to be given, as in Keras.

}  // namespace meshwork
