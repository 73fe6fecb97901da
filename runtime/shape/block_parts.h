// Parts of blocks: how large they are, what they have in common, where they stand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/shape/block.h"

namespace meshwork {

/// The number of elements of `block`. Allocates nothing.
[[nodiscard]] std::int64_t size_of(const Block& block);
[[nodiscard]] bool is_empty(const Block& block);

/// What two blocks of one tensor have in common; empty in some dimension if nothing.
[[nodiscard]] Block intersection(const Block& a, const Block& b);

/// Elements from one index of a row-major tensor of `shape` to the next in each dimension.
[[nodiscard]] std::vector<std::int64_t> strides_of(const Shape& shape);

/// Where the first element of `part` stands in `block`, stored row-major.
[[nodiscard]] std::int64_t offset_of(const Block& part, const Block& block);

/// Whether the elements of `part` stand in `block` without others between them.
[[nodiscard]] bool contiguous(const Block& part, const Block& block);

/// "[0:784, 128:256]".
[[nodiscard]] std::string to_string(const Block& block);

}  // namespace meshwork
