// Layers that act in training only: noise on elements, and dropout of whole channels.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct GaussianNoiseOptions {
  std::string name;
  float stddev = -1;  // has to be given
};

/// In training y = x + n, with n of a normal distribution of mean 0. Otherwise y = x. The numbers
/// follow from the model's seed, the layer's path, the step and the element's global index. No
/// variables.
[[nodiscard]] SharedLayer GaussianNoise(GaussianNoiseOptions options);

struct GaussianDropoutOptions {
  std::string name;
  float rate = -1;  // has to be given
};

/// In training y = x * n, with n of a normal distribution of mean 1 and of the variance that
/// Dropout's factors have: rate / (1 - rate).
[[nodiscard]] SharedLayer GaussianDropout(GaussianDropoutOptions options);

struct AlphaDropoutOptions {
  std::string name;
  float rate = -1;  // has to be given
};

/// In training y = a * (x, or with probability `rate` the value that selu tends to below 0) + b,
/// with a and b that keep mean 0 and variance 1.
[[nodiscard]] SharedLayer AlphaDropout(AlphaDropoutOptions options);

struct SpatialDropoutOptions {
  std::string name;
  float rate = -1;  // has to be given
};

/// In training y = x / (1 - rate) with probability 1 - rate, else 0, for each channel of each
/// sample as a whole. Throws `Error`, when called, for inputs that are no sequences, images or
/// volumes.
[[nodiscard]] SharedLayer SpatialDropout1D(SpatialDropoutOptions options);
[[nodiscard]] SharedLayer SpatialDropout2D(SpatialDropoutOptions options);
[[nodiscard]] SharedLayer SpatialDropout3D(SpatialDropoutOptions options);

}  // namespace meshwork
