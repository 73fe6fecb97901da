// LecunUniform and LecunNormal: VarianceScaling of 1 over inputs
// (LeCun et al., "Efficient backprop", 1998).
#pragma once

#include "runtime/graph/initializer.h"

namespace meshwork {

[[nodiscard]] Initializer LecunUniform();
[[nodiscard]] Initializer LecunNormal();

}  // namespace meshwork
