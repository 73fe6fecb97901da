// ActivityRegularization: a penalty on what passes by.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct ActivityRegularizationOptions {
  std::string name;
  float l1 = 0;
  float l2 = 0;
};

/// y = x. The loss gets l1 * sum |x| + l2 * sum x^2 of each sample, as the mean over the global
/// batch; in validation too (keras.io/api/layers/regularization_layers/activity_regularization).
[[nodiscard]] SharedLayer ActivityRegularization(ActivityRegularizationOptions options = {});

}  // namespace meshwork
