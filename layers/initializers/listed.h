// Values as they are listed. No configuration names this initializer.
#pragma once

#include <vector>

#include "runtime/graph/initializer.h"

namespace meshwork {

/// One for each element, row-major.
[[nodiscard]] Initializer Listed(std::vector<double> values);

}  // namespace meshwork
