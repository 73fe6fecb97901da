// Regions to copy, simplified: lengths of 1 are left out, dimensions are ordered by the
// destination's strides, and neighbours that lie behind each other on both sides become one.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device/kernels/copies.h"

namespace meshwork {

struct CopyDimension {
  std::int64_t extent, source_stride, destination_stride;
};

/// A region after simplification: never empty, with one dimension at least.
struct CopyBox {
  std::vector<CopyDimension> dimensions;
  std::int64_t source_offset, destination_offset, count;
  bool add;
};

/// The regions that hold anything, in their order. Throws `Error` for one whose strides do not fit.
[[nodiscard]] std::vector<CopyBox> boxes_of(const CopySpec& spec);

}  // namespace meshwork
