// Block partition of one tensor dimension.
//
// A dimension of `length` elements over `parts` blocks gives block i the half-open interval
//   [floor(i * length / parts), floor((i + 1) * length / parts)).
// Block sizes differ by at most one; a block is empty only if length < parts. Joining the blocks of
// the minor axes gives exactly the block of the major ones, for every length; redistribution relies
// on it.
#pragma once

#include <cstdint>

namespace meshwork {

/// A half-open interval of indices of one dimension.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t length() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// Block `index` of `parts`. Products of 63-bit lengths and parts are formed in 128 bits.
[[nodiscard]] Range block_range(std::int64_t length, std::int64_t parts, std::int64_t index);

/// What two intervals have in common; empty (length 0) if nothing.
[[nodiscard]] Range intersection(const Range& a, const Range& b);

}  // namespace meshwork
