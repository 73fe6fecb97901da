// Zeros: 0 everywhere.
#pragma once

#include "runtime/graph/initializer.h"

namespace meshwork {

[[nodiscard]] Initializer Zeros();

}  // namespace meshwork
