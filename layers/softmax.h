// Softmax, as a layer of its own.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct SoftmaxOptions {
  std::string name;
  int axis = -1;  // the dimension of the classes, counted from the end if negative
};

/// y = exp(x) / sum exp(x), over one dimension of an input of two or more. No variables. Throws
/// `Error`, when called, for a dimension that the input does not have, or its batch.
[[nodiscard]] SharedLayer Softmax(SoftmaxOptions options = {});

}  // namespace meshwork
