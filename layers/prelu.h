// PReLU: relu with a learned slope below 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/initializers/zeros.h"
#include "runtime/graph/initializer.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct PReLUOptions {
  std::string name;
  Initializer alpha_initializer = Zeros();
  Regularizer alpha_regularizer;
  Constraint alpha_constraint;
  std::vector<std::int64_t> shared_axes;  // dimensions that share a slope: 1, 2, ..., in this order
  bool trainable = true;
};

/// y = x where x > 0, else alpha * x. Variable: `alpha`, of the shape of a sample, with length 1
/// where it is shared. In paths it is "p_re_lu", as in Keras. Throws `Error` for `shared_axes` that
/// are not the first dimensions behind the batch; when called, where they are all of them.
[[nodiscard]] SharedLayer PReLU(PReLUOptions options = {});

}  // namespace meshwork
