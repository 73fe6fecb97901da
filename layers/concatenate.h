// Concatenate: several values one behind the other along a dimension.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct ConcatenateOptions {
  std::string name;
  int axis = -1;  // the tensor dimension, under Keras's name; 0 is the batch, -1 the last
};

/// y has the inputs' shape but for dimension `axis`, whose length is the sum of theirs; called on a
/// list of inputs. No variables. Throws `Error` when called: `axis` is the batch or no dimension of
/// the inputs, or the inputs differ in another dimension.
[[nodiscard]] SharedLayer Concatenate(ConcatenateOptions options = {});

}  // namespace meshwork
