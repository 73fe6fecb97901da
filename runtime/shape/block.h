// Block: the part of a tensor that somebody holds or works on, an interval in each dimension.
#pragma once

#include <vector>

#include "runtime/shape/partition.h"
#include "runtime/shape/shape.h"

namespace meshwork {

using Block = std::vector<Range>;

[[nodiscard]] Shape shape_of(const Block& block);
[[nodiscard]] Block whole(const Shape& shape);

}  // namespace meshwork
