// SwapEMAWeights: validation of the running means of the weights (use_ema of an optimizer).
//
// From the beginning of each validation to its end the means stand in the place of the weights.
// With `swap_on_epoch` they do from the end of each epoch to the next one's beginning, so that
// checkpoints of whole epochs, and other callbacks, see the means as the weights. Each change
// copies weights and means through the host.
#pragma once

#include "runtime/train/callbacks/callback.h"

namespace meshwork {

struct SwapEMAWeightsOptions {
  bool swap_on_epoch = false;
};

/// Training throws `Error` if the optimizer keeps no means.
[[nodiscard]] SharedCallback SwapEMAWeights(const SwapEMAWeightsOptions& options = {});

}  // namespace meshwork
