#include "runtime/device/block_runs.h"

namespace meshwork {

BlockRuns runs_of(const Shape& global, const Block& block) {
  BlockRuns runs;
  std::int64_t stride = 1;
  bool joined = true;  // everything inside this dimension is whole
  for (std::size_t d = global.size(); d-- > 0;) {
    const std::int64_t length = block[d].length();
    runs.offset += block[d].begin * stride;
    if (joined) {
      runs.length *= length;
    } else {
      runs.extents.insert(runs.extents.begin(), length);
      runs.strides.insert(runs.strides.begin(), stride);
      runs.count *= length;
    }
    joined = joined && length == global[d];
    stride *= global[d];
  }
  return runs;
}

}  // namespace meshwork
