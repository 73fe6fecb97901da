// Dropout: in training, elements are set to zero at random.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct DropoutOptions {
  std::string name;
  float rate = -1;  // the fraction that is dropped, from 0 to 1; has to be given
};

/// In training y = x / (1 - rate) with probability 1 - rate, else 0, for each element by itself;
/// rate 1 gives zeros. Otherwise y = x. Which elements are dropped follows from the model's seed,
/// the layer's path, the step and the element's global index. No variables. Throws `Error` if
/// `rate` is not within [0, 1].
[[nodiscard]] SharedLayer Dropout(DropoutOptions options);

}  // namespace meshwork
