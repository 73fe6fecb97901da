// MinMaxNorm: norms go a part of the way into an interval.
#pragma once

#include "runtime/graph/constraint.h"

namespace meshwork {

struct MinMaxNormOptions {
  double min_value = 0;
  double max_value = 1;
  double rate = 1;  // the part
  ConstrainedAxis axis = {};
};

[[nodiscard]] Constraint MinMaxNorm(const MinMaxNormOptions& options = {});

}  // namespace meshwork
