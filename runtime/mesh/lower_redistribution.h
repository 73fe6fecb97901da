// Lowering of a redistribution: its steps as kernels in a program.
//
// Each step packs what leaves into one buffer by peer, runs the collective, and unpacks; packing
// and unpacking are left out where the data already lies so (splits of the leading dimension), and
// a slice that is contiguous is an offset and copies nothing. The collectives come from a
// MeshCollectives, so that the same code shows a plan and builds a program.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "runtime/device/program.h"
#include "runtime/mesh/mesh_collectives.h"
#include "runtime/mesh/redistribution.h"

namespace meshwork {

/// Books `steps` (plan_redistribution) for this rank's block of a tensor of global `shape`, which
/// stands at `source`; gives where the result stands. With `destination` the result is written
/// there, else it is scratch memory or, where nothing had to be copied, a place in the source. The
/// source is not changed, unless `source_is_free`: then an all-reduce may work in place on it.
/// Without steps the result is the source, and there must be no destination: how much to copy is
/// not known.
Operand lower_redistribution(ProgramBuilder& builder, MeshCollectives& collectives,
                             std::span<const RedistributionStep> steps, const Shape& shape,
                             ElementType type, Operand source, std::optional<Operand> destination,
                             const CollectivePurpose& purpose, bool source_is_free = false);

/// The same of one step that is an all-gather, which is started here. What it gives books the rest,
/// where the result is wanted, once. `builder` and `collectives` outlive that.
[[nodiscard]] std::function<Operand()> start_all_gather(
    ProgramBuilder& builder, MeshCollectives& collectives, const RedistributionStep& step,
    const Shape& shape, ElementType type, Operand source, std::optional<Operand> destination,
    const CollectivePurpose& purpose);

}  // namespace meshwork
