// Permute: the dimensions of a sample in another order.
#pragma once

#include <string>
#include <vector>

#include "runtime/graph/layer.h"

namespace meshwork {

struct PermuteOptions {
  std::string name;
  /// By dimension of the output, which of the input's it is: counted from 1, the batch is not among
  /// them; {2, 1} exchanges two. Has to be given.
  std::vector<int> dims;
};

/// y with dimension d of a sample being dimension `dims[d - 1]` of x's. No variables. Throws
/// `Error` unless `dims` has each number from 1 to its length once; when called, for samples of
/// another number of dimensions.
[[nodiscard]] SharedLayer Permute(PermuteOptions options = {});

}  // namespace meshwork
