#include "runtime/graph/operations/box_rows.h"

#include <algorithm>
#include <span>

namespace meshwork {
namespace {

// Appends `prefix` followed by each box of the dimensions from `first` on that lies in `range` of
// their flat indices.
void append_boxes(const Block& box, const Shape& shape, std::size_t first, Range range,
                  Block& prefix, std::vector<Block>& boxes) {
  if (range.length() <= 0) {
    return;
  }
  const auto append_whole = [&](Range indices) {
    const Range common = intersection(indices, box[first]);
    if (common.length() <= 0) {
      return;
    }
    Block found = prefix;
    found.push_back(common);
    found.insert(found.end(), box.begin() + static_cast<std::ptrdiff_t>(first) + 1, box.end());
    if (element_count(shape_of(found)) > 0) {
      boxes.push_back(std::move(found));
    }
  };
  if (first + 1 == shape.size()) {
    append_whole(range);
    return;
  }
  const std::int64_t stride = element_count(std::span(shape).subspan(first + 1));
  const auto append_part = [&](std::int64_t index, Range rest) {
    if (index >= box[first].begin && index < box[first].end) {
      prefix.push_back({index, index + 1});
      append_boxes(box, shape, first + 1, rest, prefix, boxes);
      prefix.pop_back();
    }
  };
  const std::int64_t begin = range.begin / stride;
  const std::int64_t end = range.end / stride;
  const std::int64_t from = range.begin % stride;
  const std::int64_t to = range.end % stride;
  if (begin == end) {
    append_part(begin, {from, to});
    return;
  }
  if (from > 0) {
    append_part(begin, {from, stride});
  }
  append_whole({begin + (from > 0 ? 1 : 0), end});
  if (to > 0) {
    append_part(end, {0, to});
  }
}

}  // namespace

std::vector<Block> boxes_within(const Block& box, const Shape& shape, Range range) {
  std::vector<Block> boxes;
  if (element_count(shape) == 0) {
    return boxes;
  }
  Block prefix;
  append_boxes(box, shape, 0, range, prefix, boxes);
  return boxes;
}

}  // namespace meshwork
