#include "runtime/device/copy_boxes.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "collectives/error.h"

namespace meshwork {

namespace {

CopyBox simplify(const CopyRegion& region) {
  const std::size_t dimension_count = region.extents.size();
  if (region.source_strides.size() != dimension_count ||
      region.destination_strides.size() != dimension_count) {
    internal_error("a region to copy has not one stride a dimension");
  }
  CopyBox box{{}, region.source_offset, region.destination_offset, 1, region.add};
  std::vector<CopyDimension> ordered;
  for (std::size_t d = 0; d < dimension_count; ++d) {
    box.count *= region.extents[d];
    if (region.extents[d] != 1) {
      ordered.push_back(
          {region.extents[d], region.source_strides[d], region.destination_strides[d]});
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const CopyDimension& a, const CopyDimension& b) {
                     return std::abs(a.destination_stride) > std::abs(b.destination_stride);
                   });
  for (const CopyDimension& inner : ordered) {
    if (!box.dimensions.empty()) {
      CopyDimension& outer = box.dimensions.back();
      if (outer.source_stride == inner.source_stride * inner.extent &&
          outer.destination_stride == inner.destination_stride * inner.extent) {
        outer = {outer.extent * inner.extent, inner.source_stride, inner.destination_stride};
        continue;
      }
    }
    box.dimensions.push_back(inner);
  }
  if (box.dimensions.empty()) box.dimensions.push_back({1, 1, 1});
  return box;
}

}  // namespace

std::vector<CopyBox> boxes_of(const CopySpec& spec) {
  std::vector<CopyBox> boxes;
  for (const CopyRegion& region : spec.regions) {
    CopyBox box = simplify(region);
    if (box.count > 0) boxes.push_back(std::move(box));
  }
  return boxes;
}

}  // namespace meshwork
