// LearningRateScheduler: sets the learning rate at the beginning of every epoch, by a function of
// the epoch's index (from 0) and of the rate so far.
//
// The root calls the function; all ranks take what it gave there. The logs get "learning_rate".
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/train/callbacks/callback.h"

namespace meshwork {

struct LearningRateSchedulerOptions {
  std::function<double(std::int64_t epoch, double rate)> schedule;
  bool verbose = false;
};

/// Throws `Error` if there is no function.
[[nodiscard]] SharedCallback LearningRateScheduler(LearningRateSchedulerOptions options);

}  // namespace meshwork
