// MaxNorm: no norm is above max_value.
#pragma once

#include "runtime/graph/constraint.h"

namespace meshwork {

struct MaxNormOptions {
  double max_value = 2;
  ConstrainedAxis axis = {};
};

[[nodiscard]] Constraint MaxNorm(const MaxNormOptions& options = {});

}  // namespace meshwork
