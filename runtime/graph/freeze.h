// Freezing: variables that a step leaves as they are, by path. (Whole layers:
// Layer::set_trainable.)
#pragma once

#include "runtime/graph/graph.h"
#include "runtime/mesh/path_pattern.h"

namespace meshwork {

/// The variables of `graph` whose paths `pattern` means are not trained. Throws `Error` with the
/// nearest paths if there is none.
void freeze(Graph& graph, const PathPattern& pattern);

}  // namespace meshwork
