// The shape of a tensor: its length in each dimension.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meshwork {

/// Lengths by dimension, outermost first. Tensors are row-major: the last dimension is contiguous.
using Shape = std::vector<std::int64_t>;

/// So many elements at most has a tensor: then bytes, and sums over tensors, are numbers too.
inline constexpr std::int64_t most_elements = std::int64_t{1} << 48;

/// The product of the lengths; 1 for a scalar. Throws `Error` for more than `most_elements`.
[[nodiscard]] std::int64_t element_count(std::span<const std::int64_t> shape);

/// "(64, 28, 28)"; a length of -1, an open batch, prints as "batch".
[[nodiscard]] std::string to_string(const Shape& shape);

}  // namespace meshwork
