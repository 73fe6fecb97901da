#include "runtime/device/drawn_block.h"

#include "collectives/error.h"
#include "runtime/device/block_runs.h"

namespace meshwork {

DrawnBlock drawn_block(std::uint64_t key, const Shape& global, const Block& block) {
  const BlockRuns runs = runs_of(global, block);
  DrawnBlock drawn;
  if (runs.extents.size() > drawn.most_dimensions) {
    fail("random numbers of a block that splits more than {} dimensions in front of others",
         DrawnBlock::most_dimensions);
  }
  drawn.key = key;
  drawn.length = runs.length;
  drawn.offset = runs.offset;
  drawn.counters = (runs.length + 3) / 4 + 1;
  drawn.count = runs.length > 0 ? runs.count * drawn.counters : 0;
  drawn.dimensions = static_cast<int>(runs.extents.size());
  for (std::size_t d = 0; d < runs.extents.size(); ++d) {
    drawn.extents[d] = runs.extents[d];
    drawn.strides[d] = runs.strides[d];
  }
  return drawn;
}

}  // namespace meshwork
