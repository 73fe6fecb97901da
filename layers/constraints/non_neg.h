// NonNeg: what is below 0 becomes 0.
#pragma once

#include "runtime/graph/constraint.h"

namespace meshwork {

[[nodiscard]] Constraint NonNeg();

}  // namespace meshwork
