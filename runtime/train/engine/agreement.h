// What ranks agree about before the first step: the collectives that each is about to enter.
//
// Ranks that run the same operations have the same list. Where a model is placed (graph/placement.h)
// there are several parts, each with a list of its own. Then the ranks of a part compare theirs; what
// all parts enter together is compared over all ranks; and of messages between parts, what one rank
// sends to another is what that expects from it.
//
// Splitting communicators is collective over the mesh. Parts come to their axes at different times, so
// all axes that any part wants are prepared here, in one order.
#pragma once

#include <string>
#include <vector>

#include "runtime/mesh/device_mesh.h"
#include "runtime/mesh/mesh_collectives.h"

namespace meshwork {

/// Collective over the mesh, which the transport serves. `booked` is what this rank has booked, and
/// `placing` the axes over which ranks run different operations. Throws `Error` on all ranks, with the
/// first difference; `what` says what is compared.
void agree_on_collectives(DeviceMesh& mesh, Transport& transport, const std::vector<Axis>& placing,
                          const MeshCollectives& booked, const std::string& what);

}  // namespace meshwork
