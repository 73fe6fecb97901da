#include "collectives/blocks.h"

#include <algorithm>

namespace meshwork {

std::int64_t extent_of(Counts counts, Counts offsets) {
  std::int64_t end = 0;
  for (std::size_t block = 0; block < counts.size(); ++block) {
    if (counts[block] > 0) end = std::max(end, offsets[block] + counts[block]);
  }
  return end;
}

std::int64_t total_of(std::span<const NeighbourBlock> blocks) {
  std::int64_t total = 0;
  for (const NeighbourBlock& block : blocks) total += block.count;
  return total;
}

std::int64_t extent_of(std::span<const NeighbourBlock> blocks) {
  std::int64_t end = 0;
  for (const NeighbourBlock& block : blocks) end = std::max(end, block.offset + block.count);
  return end;
}

}  // namespace meshwork
