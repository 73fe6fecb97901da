// Regions: which rank writes which part of a tensor.
//
// A block that several ranks hold alike is written by one of them or, if it is large, in slices by
// all of them, so that no rank writes much more than another. A rank has one region of each tensor,
// which may be empty; it is contiguous in the rank's own block. The rule needs no communication:
//
//   - The *replicas* of a block are numbered row-major over the axes that do not split the tensor.
//   - A block of fewer than `slice_elements` belongs to the replica whose number is the tensor's
//     place in the list modulo the number of replicas: the next tensor is somebody else's.
//   - A larger one is cut along its first dimension that is longer than 1, by partition.h.
//
// Files are not filled beforehand, so what nobody writes would be garbage. Before anything is
// written, rank 0 proves from what all ranks announce that each element belongs to exactly one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/mesh/layout.h"
#include "runtime/shape/block_parts.h"

namespace meshwork {

/// Blocks of at least as many elements are written in slices by all that hold them.
inline constexpr std::int64_t slice_elements = 16384;

/// The region of `rank` in tensor number `turn`. Empty regions have length 0 in dimension 0.
[[nodiscard]] Block region_of(const Layout& layout, const Shape& shape, const MeshShape& mesh,
                              std::int64_t rank, std::int64_t turn);

/// "" if `regions` together cover a tensor of `shape` exactly once, else what is wrong.
[[nodiscard]] std::string flaw_of_cover(const Shape& shape, const std::vector<Block>& regions);

/// Calls `visit` with parts of `block`, in row-major order and without gaps, each of at most
/// `most` elements (1 at least). An empty block has none, one without dimensions has one part.
void for_each_part(const Block& block, std::int64_t most,
                   const std::function<void(const Block& part)>& visit);

}  // namespace meshwork
