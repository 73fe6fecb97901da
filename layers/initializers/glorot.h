// GlorotUniform and GlorotNormal: VarianceScaling of 1 over the mean of inputs and outputs
// (Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS 2010).
#pragma once

#include "runtime/graph/initializer.h"

namespace meshwork {

[[nodiscard]] Initializer GlorotUniform();
[[nodiscard]] Initializer GlorotNormal();

}  // namespace meshwork
