// Ones: 1 everywhere.
#pragma once

#include "runtime/graph/initializer.h"

namespace meshwork {

[[nodiscard]] Initializer Ones();

}  // namespace meshwork
