// RandomNormal: values of a normal distribution.
#pragma once

#include "runtime/graph/initializer.h"

namespace meshwork {

struct RandomNormalOptions {
  double mean = 0;
  double stddev = 0.05;
};

[[nodiscard]] Initializer RandomNormal(const RandomNormalOptions& options = {});

}  // namespace meshwork
