// Fusion: operations that a device does better as one.
//
// Layers are made of small operations, so that the rule of each is simple; devices like larger
// ones. After planning, an operation is joined with the only one that uses its output, where
// nothing has to move between them and the two know how to be one (`Operation::fused_with`). Fusion
// changes no layout and no collective.
//
// Backward, what could be one kernel belongs to two operations: the gradient of a value
// y = activation(z) is made by the operation that uses y, and multiplied by the derivative by the
// one that made y. The user is the one to do both, and the maker finds the gradient of z, where
//   - nobody else uses y: else the gradient would not be complete yet, and several would multiply;
//   - the user can (`Operation::takes_derivative`), and the maker knows of it
//     (`Operation::ends_in`);
//   - both hold the same block of y, so that no rank multiplies what is not its own.
// What the user gives may be a partial sum over ranks. The derivative depends on y alone, which is
// the same on all of them; a sum of products with it is the product with the sum, so it may as well
// be taken before the reduction as after, and the plan's collectives carry as many bytes.
#pragma once

#include "runtime/graph/plan.h"

namespace meshwork {

/// Fuses what can be fused in `plan`, whose operations are those of its graph, and settles who
/// takes which derivative (PlannedTensor::gradient_before).
void fuse(Plan& plan);

}  // namespace meshwork
