// Lowering of a window exchange: what window_exchange.h plans, as kernels in a program.
//
// What leaves is packed into one buffer by peer, exchanged, and unpacked into the box beside the
// rank's own part. Packing is left out where the data already lies so, unpacking where each part
// is contiguous in the box. Where box and block are one, nothing is copied; where that is so on all
// ranks, nothing is exchanged either, and nothing is booked at all.
#pragma once

#include <optional>

#include "runtime/device/program.h"
#include "runtime/mesh/mesh_collectives.h"
#include "runtime/mesh/window_exchange.h"

namespace meshwork {

/// Books what brings every rank its box; `source` is this rank's block. Gives where the box stands:
/// in scratch memory, or at the source if it is the block. The source is not changed.
[[nodiscard]] Operand lower_windows(ProgramBuilder& builder, MeshCollectives& collectives,
                                    const Windows& windows, ElementType type, Operand source,
                                    const CollectivePurpose& purpose);

/// Books the reverse: `source` is this rank's box, and every element of its block becomes the sum
/// of what the boxes of the ranks say of it, added in the order of the ranks; 0 where none says
/// anything. Gives where the block stands: at `destination`, else in scratch memory or, where
/// nothing had to be added, in the source. The source is not changed. float32 and float64.
[[nodiscard]] Operand lower_windows_back(ProgramBuilder& builder, MeshCollectives& collectives,
                                         const Windows& windows, ElementType type, Operand source,
                                         std::optional<Operand> destination,
                                         const CollectivePurpose& purpose);

}  // namespace meshwork
