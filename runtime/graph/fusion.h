// Fusion: operations that a device does better as one.
//
// Layers are made of small operations, so that the rule of each is simple; devices like larger
// ones. After planning, an operation is joined with the only one that uses its output, where
// nothing has to move between them and the two know how to be one (`Operation::fused_with`). Fusion
// changes no layout and no collective.
#pragma once

#include "runtime/graph/plan.h"

namespace meshwork {

/// Fuses what can be fused in `plan`, whose operations are those of its graph.
void fuse(Plan& plan);

}  // namespace meshwork
