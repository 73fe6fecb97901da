// HeUniform and HeNormal: VarianceScaling of 2 over inputs, of a relu
// (He et al., arXiv:1502.01852).
#pragma once

#include "runtime/graph/initializer.h"

namespace meshwork {

[[nodiscard]] Initializer HeUniform();
[[nodiscard]] Initializer HeNormal();

}  // namespace meshwork
