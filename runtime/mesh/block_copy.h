// Parts of blocks as memory: where they stand, and the copies that bring them elsewhere.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device/kernels/copies.h"
#include "runtime/mesh/layout.h"

namespace meshwork {

/// The number of elements of `block`.
[[nodiscard]] std::int64_t size_of(const Block& block);

/// Elements from one index of a row-major tensor of `shape` to the next in each dimension.
[[nodiscard]] std::vector<std::int64_t> strides_of(const Shape& shape);

/// Where the first element of `part` stands in `block`, stored row-major.
[[nodiscard]] std::int64_t offset_of(const Block& part, const Block& block);

/// Whether the elements of `part` stand in `block` without others between them.
[[nodiscard]] bool contiguous(const Block& part, const Block& block);

/// What two blocks of one tensor have in common; empty in some dimension if nothing.
[[nodiscard]] Block intersection(const Block& a, const Block& b);

/// `part` out of `source`, which stands from element `source_base` on, into `destination`.
[[nodiscard]] CopyRegion copied_region(const Block& part, const Block& source,
                                       std::int64_t source_base, const Block& destination,
                                       std::int64_t destination_base);

}  // namespace meshwork
