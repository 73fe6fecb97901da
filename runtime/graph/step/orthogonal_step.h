// Steps along matrices that are made orthogonal: what Muon takes in place of a gradient.
#pragma once

#include "runtime/graph/step/context.h"

namespace meshwork {

/// Books an orthogonal matrix near `matrix` (MatrixSteps), a value that lies as the variable of
/// `span`. Gives this rank's block of it. Each rank gathers the whole and makes all of it. Every
/// rank of the mesh books it for the same variables.
[[nodiscard]] Operand book_orthogonal(StepContext& step, const ParameterSpan& span,
                                      const Operand& matrix, const MatrixSteps& steps);

}  // namespace meshwork
