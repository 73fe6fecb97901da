// ReLU: max(x, 0), as a layer of its own, with Keras's variations.
#pragma once

#include <optional>
#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct ReLUOptions {
  std::string name;
  std::optional<float> max_value = std::nullopt;  // what larger values become; none: they stay
  float negative_slope = 0;                       // below the threshold
  float threshold = 0;
};

/// Element by element, y = negative_slope * (x - threshold) where x <= threshold, max_value where
/// x >= max_value, else x. The gradient is 0 at max_value and negative_slope at the threshold. No
/// variables. In paths it is "re_lu", as in Keras. Throws `Error` for options that are negative or
/// no numbers.
[[nodiscard]] SharedLayer ReLU(ReLUOptions options = {});

}  // namespace meshwork
