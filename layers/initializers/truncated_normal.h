// TruncatedNormal: values of a normal distribution, cut off at two standard deviations.
#pragma once

#include "runtime/graph/initializer.h"

namespace meshwork {

struct TruncatedNormalOptions {
  double mean = 0;
  double stddev = 0.05;  // before values are cut off
};

[[nodiscard]] Initializer TruncatedNormal(const TruncatedNormalOptions& options = {});

}  // namespace meshwork
