// Identity: a matrix of gain on the diagonal, and of 0 elsewhere. Keras's other name for it tells it from the layer.
#pragma once

#include "runtime/graph/initializer.h"

namespace meshwork {

struct IdentityInitializerOptions {
  double gain = 1;
};

/// For variables of two dimensions.
[[nodiscard]] Initializer IdentityInitializer(const IdentityInitializerOptions& options = {});

}  // namespace meshwork
