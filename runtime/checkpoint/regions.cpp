#include "runtime/checkpoint/regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace meshwork {

Block region_of(const Layout& layout, const Shape& shape, const MeshShape& mesh, std::int64_t rank,
                std::int64_t turn) {
  Block region = block_of(layout, shape, mesh, rank);
  const auto [number, replicas] = replica_of(layout, mesh, rank);
  const auto cut =
      std::find_if(region.begin(), region.end(), [](const Range& r) { return r.length() > 1; });
  if (number < 0) {
    return region.empty() ? Block{{0, 0}} : region;  // nothing of it is here
  }
  if (size_of(region) >= slice_elements && cut != region.end()) {
    const Range slice = block_range(cut->length(), replicas, number);
    *cut = {cut->begin + slice.begin, cut->begin + slice.end};
  } else if (turn % replicas != number) {
    if (region.empty()) {
      return {{0, 0}};  // nothing of a scalar
    }
    region[0].end = region[0].begin;
  }
  return region;
}

// Whether blocks that are not empty have an element in common.
static bool overlap(const Block& a, const Block& b) {
  for (std::size_t d = 0; d < a.size(); ++d) {
    if (a[d].end <= b[d].begin || b[d].end <= a[d].begin) return false;
  }
  return true;
}

std::string flaw_of_cover(const Shape& shape, const std::vector<Block>& regions) {
  std::vector<Block> sorted;
  std::int64_t covered = 0;
  for (const Block& region : regions) {
    if (region.size() != shape.size()) {
      return fmt::format("the region {} is none of a tensor of shape {}", to_string(region),
                         to_string(shape));
    }
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (region[d].begin < 0 || region[d].end > shape[d] || region[d].begin > region[d].end) {
        return fmt::format("the region {} is not inside the shape {}", to_string(region),
                           to_string(shape));
      }
    }
    if (!is_empty(region)) {
      covered += size_of(region);
      sorted.push_back(region);
    }
  }
  // Sorted by where they begin in a dimension, a region can only overlap with those that have not
  // ended: few, in the dimension that most regions begin apart in.
  std::size_t along = 0;
  std::size_t most = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::set<std::int64_t> begins;
    for (const Block& region : sorted) begins.insert(region[d].begin);
    if (begins.size() > most) {
      most = begins.size();
      along = d;
    }
  }
  const auto begin_of = [&](const Block& region) {
    return region.empty() ? 0 : region[along].begin;
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const Block& a, const Block& b) { return begin_of(a) < begin_of(b); });
  constexpr std::int64_t most_compared = 100'000'000;  // a second's; 65,536 ranks have a third
  std::int64_t compared = 0;
  std::vector<const Block*> open;
  for (const Block& region : sorted) {
    std::erase_if(open, [&](const Block* other) {
      return !other->empty() && (*other)[along].end <= begin_of(region);
    });
    compared += static_cast<std::int64_t>(open.size());
    if (compared > most_compared) return "its regions are no blocks of a mesh";
    for (const Block* other : open) {
      if (overlap(*other, region)) {
        return fmt::format("the regions {} and {} overlap", to_string(*other), to_string(region));
      }
    }
    open.push_back(&region);
  }
  if (covered != element_count(shape)) {
    return fmt::format("{} of {} elements belong to no region", element_count(shape) - covered,
                       element_count(shape));
  }
  return "";
}

void for_each_part(const Block& block, std::int64_t most,
                   const std::function<void(const Block& part)>& visit) {
  if (is_empty(block)) {
    return;
  }
  // Dimensions before `cut` one index at a time, those behind it whole.
  std::size_t cut = block.size();
  std::int64_t inner = 1;
  while (cut > 0 && inner * block[cut - 1].length() <= most) {
    inner *= block[--cut].length();
  }
  if (cut == 0) {
    visit(block);
    return;
  }
  const std::size_t dimension = cut - 1;
  const std::int64_t step = std::max<std::int64_t>(1, most / inner);
  Block part = block;
  for (std::size_t d = 0; d < dimension; ++d) {
    part[d].end = part[d].begin + 1;
  }
  for (;;) {
    for (std::int64_t begin = block[dimension].begin; begin < block[dimension].end; begin += step) {
      part[dimension] = {begin, std::min(begin + step, block[dimension].end)};
      visit(part);
    }
    std::size_t d = dimension;
    while (d > 0 && part[d - 1].end == block[d - 1].end) {
      --d;
      part[d] = {block[d].begin, block[d].begin + 1};
    }
    if (d == 0) {
      return;
    }
    part[d - 1] = {part[d - 1].begin + 1, part[d - 1].end + 1};
  }
}

}  // namespace meshwork
