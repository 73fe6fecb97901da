#include "collectives/blocks.h"

#include <algorithm>

#include "collectives/error.h"

namespace meshwork {

std::int64_t extent_of(Counts counts, Counts offsets) {
  std::int64_t end = 0;
  for (std::size_t block = 0; block < counts.size(); ++block) {
    if (counts[block] > 0) end = std::max(end, offsets[block] + counts[block]);
  }
  return end;
}

void check_blocks(const Communicator& communicator, std::initializer_list<Counts> lists) {
  for (const Counts values : lists) {
    if (std::ssize(values) != communicator.size()) {
      internal_error(fmt::format("{} blocks were given to a collective of {} ranks", values.size(),
                                 communicator.size()));
    }
  }
}

void check_neighbours(const Communicator& communicator, std::span<const NeighbourBlock> blocks) {
  for (const NeighbourBlock& block : blocks) {
    if (block.rank < 0 || block.rank >= communicator.size() || block.rank == communicator.rank()) {
      internal_error(fmt::format("rank {} of {} exchanges with rank {}", communicator.rank(),
                                 communicator.size(), block.rank));
    }
  }
}

}  // namespace meshwork
