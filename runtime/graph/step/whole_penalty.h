// Penalties of whole variables (runtime/graph/regularizer.h): each rank gathers the whole and works
// out all of it, once a step.
#pragma once

#include "runtime/graph/step/context.h"

namespace meshwork {

/// Books that of a variable whose regularizer has one. Every rank does so for the same variables.
[[nodiscard]] WholePenalty book_whole_penalty(StepContext& step, const ParameterSpan& span);
/// Books that this rank's block of the derivative is added to the variable's gradient.
void book_derivative_of(StepContext& step, const ParameterSpan& span, const WholePenalty& penalty);

}  // namespace meshwork
