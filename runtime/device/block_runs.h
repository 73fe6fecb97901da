// A block of a tensor as runs of consecutive elements of the whole.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/shape/block.h"

namespace meshwork {

/// Consecutive elements of the block that are consecutive in the global tensor, and where they
/// begin.
struct BlockRuns {
  std::int64_t length = 1, count = 1;
  Shape extents;  // of the dimensions in front of a run, which count the runs
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;

  [[nodiscard]] std::int64_t start(std::int64_t run) const {
    std::int64_t index = offset;
    for (std::size_t d = extents.size(); d-- > 0;) {
      index += run % extents[d] * strides[d];
      run /= extents[d];
    }
    return index;
  }
};

[[nodiscard]] BlockRuns runs_of(const Shape& global, const Block& block);

}  // namespace meshwork
