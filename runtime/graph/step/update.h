// The end of a training step: penalties join the gradients, gradients are clipped, and one fused
// kernel updates all parameters.
#pragma once

#include "runtime/graph/step/context.h"

namespace meshwork {

/// Books it, over complete gradients. Norms are those of whole variables, whatever their layout:
/// each element counts once over the ranks, and all squares are reduced together.
void update_parameters(StepContext& step);

}  // namespace meshwork
