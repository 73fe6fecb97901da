// Constant: one value everywhere.
#pragma once

#include "runtime/graph/initializer.h"

namespace meshwork {

struct ConstantOptions {
  double value = 0;
};

[[nodiscard]] Initializer Constant(const ConstantOptions& options = {});

}  // namespace meshwork
