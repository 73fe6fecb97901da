// EpochRate: how fast an epoch trains, for callbacks that write it down: without its validation,
// and of an epoch that a run goes on with, from there.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "runtime/train/loop/training.h"

namespace meshwork {

class EpochRate {
 public:
  void begin_epoch(const Training& training) {
    begin_ = trained_ = Clock::now();
    first_sample_ = training.position().samples;
  }
  void end_batch() { trained_ = Clock::now(); }

  /// At the end of the epoch; none if no time has passed.
  [[nodiscard]] std::optional<double> samples_per_second(const Training& training) const {
    const double training_seconds = between(begin_, trained_);
    if (training_seconds <= 0) return std::nullopt;
    return static_cast<double>(training.position().samples - first_sample_) / training_seconds;
  }
  /// Since it began, with all that is not training.
  [[nodiscard]] double seconds() const { return between(begin_, Clock::now()); }

 private:
  using Clock = std::chrono::steady_clock;
  static double between(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  Clock::time_point begin_, trained_;  // the epoch, and its last batch so far
  std::int64_t first_sample_ = 0;      // with which this run began the epoch
};

}  // namespace meshwork
