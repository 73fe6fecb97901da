// Copying a block of samples that lie whole in memory, for the sources that keep them there.
//
// Samples lie one after the other, each row-major. Trailing dimensions that the block takes whole
// are copied in one piece together with the interval of the dimension before them; the dimensions
// before that are walked. Elements are converted on the way where they are stored in another form
// than samples have. Nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/shape/block_parts.h"

namespace meshwork {

/// What `copy_samples` throws for an element that samples cannot hold: a finite number of float64
/// that is none of float32. `Source::read` makes an `Error` of it.
struct UnfitElement {
  std::int64_t row = 0;
  std::int64_t element = 0;  // of the sample, row-major
  double value = 0;
};

/// How elements are stored, and what makes of `count` of them those of samples; it gives the index
/// of the first that it cannot, or `count`.
struct StoredElements {
  std::int64_t stored_bytes = 0;  // of one
  std::int64_t bytes = 0;         // of one in a sample
  std::int64_t (*convert)(const std::byte* from, std::int64_t count,
                          std::byte* to) = nullptr;  // null: none
};

/// Copies `block` of each of `rows` to `destination`, without gaps. Sample r of `shape` begins at
/// `samples` + r * (bytes of a stored sample).
void copy_samples(const std::byte* samples, const Shape& shape, const StoredElements& elements,
                  std::span<const std::int64_t> rows, const Block& block, std::byte* destination);
inline void copy_samples(const std::byte* samples, const Shape& shape,
                         std::int64_t bytes_per_element, std::span<const std::int64_t> rows,
                         const Block& block, std::byte* destination) {
  copy_samples(samples, shape, StoredElements{bytes_per_element, bytes_per_element}, rows, block,
               destination);
}

}  // namespace meshwork
