// RandomUniform: values of a uniform distribution.
#pragma once

#include "runtime/graph/initializer.h"

namespace meshwork {

struct RandomUniformOptions {
  double minval = -0.05;
  double maxval = 0.05;
};

[[nodiscard]] Initializer RandomUniform(const RandomUniformOptions& options = {});

}  // namespace meshwork
