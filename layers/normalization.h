// Normalization: inputs brought to mean 0 and variance 1 by what the training data have.
#pragma once

#include <optional>
#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct NormalizationOptions {
  std::string name;
  int axis = -1;                         // the dimension of the channels: the last, and no other
  std::optional<double> mean, variance;  // of every channel; none: as the training data have them
};

/// y = (x - mean) / sqrt(variance + 1e-14), channel by channel, on the last dimension of an input of
/// two dimensions or more; Keras has max(sqrt(variance), 1e-7) for the divisor
/// (keras.io/api/layers/preprocessing_layers/numerical/normalization). Variables, each (channels)
/// and not trained: `mean` and `variance`. Without numbers for both, Model::adapt finds them, as
/// `meshwork train` does before the first step. Throws `Error` if one of the two is given alone;
/// when called, for an input of fewer dimensions.
[[nodiscard]] SharedLayer Normalization(NormalizationOptions options = {});

}  // namespace meshwork
