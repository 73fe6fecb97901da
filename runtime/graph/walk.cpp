#include "runtime/graph/walk.h"

#include <algorithm>

namespace meshwork {

std::vector<Range> StepWalk::of(std::int64_t rows) const {
  const std::int64_t parts =
      std::clamp<std::int64_t>(rows, 1, std::max<std::int64_t>(micro_batches, 1));
  std::vector<Range> all;
  for (std::int64_t part = 0; part < parts; ++part) {
    all.push_back(block_range(rows, parts, part));
  }
  return all;
}

std::int64_t StepWalk::rows_at_once(std::int64_t rows) const {
  const std::int64_t parts = std::max<std::int64_t>(micro_batches, 1);
  return (rows + parts - 1) / parts;
}

}  // namespace meshwork
