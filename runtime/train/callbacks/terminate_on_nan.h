// TerminateOnNaN: ends training as soon as the loss of an epoch so far is infinite or no number,
// and says where in the step that was first seen: on which rank, in the data, the output of which
// layer, or a gradient (Training::where_not_finite). It looks after every batch, and so waits for
// a device that works beside the host after every batch.
#pragma once

#include "runtime/train/callbacks/callback.h"

namespace meshwork {

struct TerminateOnNaNOptions {
  /// Whether to throw an `Error` instead of ending quietly.
  bool raise_error = false;
};

[[nodiscard]] SharedCallback TerminateOnNaN(const TerminateOnNaNOptions& options = {});

}  // namespace meshwork
