#include "runtime/shape/block_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace meshwork {

std::int64_t size_of(const Block& block) {
  if (is_empty(block)) return 0;
  std::int64_t size = 1;
  for (const Range& range : block) size *= range.length();
  return size;
}

bool is_empty(const Block& block) {
  return std::any_of(block.begin(), block.end(),
                     [](const Range& range) { return range.length() <= 0; });
}

Block intersection(const Block& a, const Block& b) {
  Block common;
  common.reserve(a.size());
  for (std::size_t dimension = 0; dimension < a.size(); ++dimension) {
    common.push_back(intersection(a[dimension], b[dimension]));
  }
  return common;
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

std::string to_string(const Block& block) {
  std::string text;
  for (const Range& range : block) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", range.begin, range.end);
  }
  return "[" + text + "]";
}

}  // namespace meshwork
