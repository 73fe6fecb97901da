// The arithmetic of reductions in shared memory.
//
// Element by element and in the order of the ranks, ((r0 + r1) + r2) + ..., so that a result does
// not depend on who computes it nor on how the work is cut. Integers wrap. Bound by memory: each
// element is read once from every source and written once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/element_type.h"
#include "collectives/transport.h"

namespace meshwork {

/// destination[i] = reduction over s of sources[s][i] for `count` elements. The destination may be
/// one of the sources; otherwise nothing overlaps.
void reduce_elements(ElementType type, Reduction reduction,
                     std::span<const std::byte* const> sources, std::byte* destination,
                     std::int64_t count);

/// Every buffers[b][i] = reduction over all of them, for elements `begin` to `begin + count`.
void reduce_everywhere(ElementType type, Reduction reduction, std::span<std::byte* const> buffers,
                       std::int64_t begin, std::int64_t count);

}  // namespace meshwork
