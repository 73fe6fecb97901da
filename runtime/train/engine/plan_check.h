// Holding what a step sends against what its plan says.
//
// The plan's records say how often each kind of collective runs over how many ranks, and how many
// bytes this rank sends in them; a counting transport (counting.h) counts the same things as they
// happen. Where a run is asked to check its plan, every step compares the two.
#pragma once

#include <string>
#include <vector>

#include "collectives/counting.h"
#include "runtime/mesh/mesh_collectives.h"

namespace meshwork {

/// What a step with these records sends, as a counting transport counts it.
[[nodiscard]] std::vector<Traffic> planned_traffic(const std::vector<CollectiveRecord>& records,
                                                   const MeshShape& mesh);

/// Throws `Error` with every difference between the two, if there is one. `what` names the step.
void require_planned(const std::vector<Traffic>& planned, const std::vector<Traffic>& sent,
                     const std::string& what);

}  // namespace meshwork
