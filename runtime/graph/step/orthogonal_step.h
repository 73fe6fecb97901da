// Steps along matrices that are made orthogonal: what Muon takes in place of a gradient.
#pragma once

#include "runtime/graph/step/context.h"

namespace meshwork {

/// Books that of `matrix`, this rank's block of what has the form of a variable, an orthogonal
/// matrix near the whole is made (MatrixSteps), and gives this rank's block of that. Each rank
/// gathers the whole and makes all of it. Every rank of the mesh books it for the same variables.
[[nodiscard]] Operand book_orthogonal(StepContext& step, const ParameterSpan& span,
                                      const Operand& matrix, const MatrixSteps& steps);

}  // namespace meshwork
