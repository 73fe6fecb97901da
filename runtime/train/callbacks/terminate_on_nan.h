// TerminateOnNaN: ends training as soon as the loss of an epoch so far is infinite or no number.
#pragma once

#include "runtime/train/callback.h"

namespace meshwork {

struct TerminateOnNaNOptions {
  /// Whether to throw an `Error` instead of ending quietly.
  bool raise_error = false;
};

[[nodiscard]] SharedCallback TerminateOnNaN(const TerminateOnNaNOptions& options = {});

}  // namespace meshwork
