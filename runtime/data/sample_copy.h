// Copying a block of samples that lie whole in memory, for the sources that keep them there.
//
// Samples lie one after the other, each row-major. Trailing dimensions that the block takes whole
// are copied in one piece together with the interval of the dimension before them; the dimensions
// before that are walked. Nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/shape/block_parts.h"

namespace meshwork {

/// Copies `block` of each of `rows` to `destination`, without gaps. Sample r of `shape` begins at
/// `samples` + r * (bytes of a sample).
void copy_samples(const std::byte* samples, const Shape& shape, std::int64_t bytes_per_element,
                  std::span<const std::int64_t> rows, const Block& block, std::byte* destination);

}  // namespace meshwork
