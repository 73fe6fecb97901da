// Boxes of a row-major array, and the part of one that lies in a range of the array seen flat.
//
// The block of an image (rows, columns, channels) is a box; the block of a kernel whose rows are
// the flattened image is a range. What they have in common is a few boxes again: of the first and
// the last index of the outermost dimension only a part may be in the range, of those between them
// all.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/mesh/layout.h"
#include "runtime/shape/shape.h"

namespace meshwork {

/// The elements of `box`, in an array of `shape`, whose flat indices lie in `range`: as disjoint
/// boxes, none of them empty, in ascending order of flat indices. Of two dimensions or more; a box
/// of a scalar is not asked for.
[[nodiscard]] std::vector<Block> boxes_within(const Block& box, const Shape& shape, Range range);

}  // namespace meshwork
