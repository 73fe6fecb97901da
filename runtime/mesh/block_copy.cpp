#include "runtime/mesh/block_copy.h"

namespace meshwork {

std::int64_t size_of(const Block& block) {
  return element_count(shape_of(block));
}

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t dimension = shape.size(); dimension-- > 1;) {
    strides[dimension - 1] = strides[dimension] * shape[dimension];
  }
  return strides;
}

std::int64_t offset_of(const Block& part, const Block& block) {
  std::int64_t offset = 0;
  for (std::size_t dimension = 0; dimension < block.size(); ++dimension) {
    offset = offset * block[dimension].length() + part[dimension].begin - block[dimension].begin;
  }
  return offset;
}

bool contiguous(const Block& part, const Block& block) {
  bool inner_whole = true;
  for (std::size_t dimension = block.size(); dimension-- > 0;) {
    if (part[dimension].length() > 1 && !inner_whole) return false;
    inner_whole = inner_whole && part[dimension].length() == block[dimension].length();
  }
  return true;
}

Block intersection(const Block& a, const Block& b) {
  Block common;
  for (std::size_t dimension = 0; dimension < a.size(); ++dimension) {
    common.push_back(intersection(a[dimension], b[dimension]));
  }
  return common;
}

CopyRegion copied_region(const Block& part, const Block& source, std::int64_t source_base,
                         const Block& destination, std::int64_t destination_base) {
  const std::vector<std::int64_t> from = strides_of(shape_of(source));
  const std::vector<std::int64_t> to = strides_of(shape_of(destination));
  CopyRegion region;
  region.source_offset = source_base + offset_of(part, source);
  region.destination_offset = destination_base + offset_of(part, destination);
  // Dimensions that join without a gap on both sides are one: fewer loops, longer runs.
  for (std::size_t dimension = 0; dimension < part.size(); ++dimension) {
    const std::int64_t length = part[dimension].length();
    if (length == 1) continue;
    if (!region.extents.empty() && region.source_strides.back() == length * from[dimension] &&
        region.destination_strides.back() == length * to[dimension]) {
      region.extents.back() *= length;
      region.source_strides.back() = from[dimension];
      region.destination_strides.back() = to[dimension];
    } else {
      region.extents.push_back(length);
      region.source_strides.push_back(from[dimension]);
      region.destination_strides.push_back(to[dimension]);
    }
  }
  if (region.extents.empty()) {
    region.extents = region.source_strides = region.destination_strides = {1};
  }
  return region;
}

}  // namespace meshwork
