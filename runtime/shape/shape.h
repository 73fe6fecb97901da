// The shape of a tensor: its length in each dimension.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meshwork {

/// Lengths by dimension, outermost first. Tensors are row-major: the last dimension is contiguous.
using Shape = std::vector<std::int64_t>;

/// The product of the lengths; 1 for a scalar.
[[nodiscard]] std::int64_t element_count(std::span<const std::int64_t> shape);

/// "(64, 28, 28)"; a length of -1, an open batch, prints as "batch".
[[nodiscard]] std::string to_string(const Shape& shape);

}  // namespace meshwork
