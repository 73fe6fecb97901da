// The end of a training step: reductions of gradients end, penalties join them, they are clipped,
// and one fused kernel a stretch updates what this rank updates, with its narrow copy
// (parameter_form.h). Where nothing has to be known of all gradients before, each bucket is updated
// as soon as it is reduced, while it is in the cache.
#pragma once

#include "runtime/graph/step/context.h"
#include "runtime/graph/step/gradients.h"
#include "runtime/graph/step/sums.h"

namespace meshwork {

/// Books it. Norms are those of whole variables, whatever their layout: each element counts once
/// over the ranks, and all squares are reduced together. What is reported of them goes to `sums`:
/// where nothing is clipped by it, it is reduced with these.
void update_parameters(StepContext& step, StepGradients& gradients, StepSums& sums);

}  // namespace meshwork
