// UnitNorm: norms are 1.
#pragma once

#include "runtime/graph/constraint.h"

namespace meshwork {

struct UnitNormOptions {
  ConstrainedAxis axis = {};
};

[[nodiscard]] Constraint UnitNorm(const UnitNormOptions& options = {});

}  // namespace meshwork
