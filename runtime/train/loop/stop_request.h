// StopRequest: a run is asked, from outside of its loop, to save a checkpoint and to end.
//
// Whoever asks (a signal handler, a watchdog, a thread of the user's) does so on any one rank, at
// any moment, with a *reason*: a positive number of its own, such as the number of a signal. `fit`
// looks at the ends of steps on which the ranks have agreed beforehand (step_agreement.h), so that
// all of them leave after the same step, about half a second later at most. There it saves a
// checkpoint, if the run has a directory for them, and returns, whether or not the epoch is over:
// with neither validation nor the callbacks' epoch end and train end, as if the run had been cut
// off. `History::stop_reason` then is the reason; of several the largest. Evaluation and prediction
// have nothing to save: they throw `Stopped` at the end of a batch. While kernels are timed for the
// steps (kernel_choice.h), the ranks leave after the one that is under way, and nothing is saved.
//
//     StopRequest request;
//     ...                                      // the handler of SIGTERM: request.ask(SIGTERM)
//     History history = model.fit(data, {.stop_request = &request, ...});
//     if (history.stop_reason == SIGTERM) ...
#pragma once

#include <atomic>
#include <string>

#include "collectives/error.h"

namespace meshwork {

class StopRequest {
 public:
  /// Asks, with a reason above 0. May be called from signal handlers and from any thread. What was
  /// asked with a larger reason stays.
  void ask(int reason) noexcept {
    int known = reason_.load(std::memory_order_relaxed);
    while (known < reason &&
           !reason_.compare_exchange_weak(known, reason, std::memory_order_relaxed)) {
    }
  }
  /// The reason, or 0.
  [[nodiscard]] int reason() const noexcept { return reason_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> reason_{0};
  static_assert(std::atomic<int>::is_always_lock_free, "signal handlers ask without locks");
};

/// Evaluation or prediction, or the timing of kernels before a pass, was ended by a `StopRequest`:
/// on all ranks, after the same batch or kernel.
class Stopped : public Error {
 public:
  Stopped(int reason, const std::string& message) : Error(message), reason_(reason) {}
  [[nodiscard]] int reason() const { return reason_; }

 private:
  int reason_;
};

/// The exit status of a program that a `StopRequest` has ended: 130 if by SIGINT, as shells say it,
/// else 75, "temporary failure": start it again and it goes on.
[[nodiscard]] int stopped_status(int reason);
/// "SIGTERM", or "a request (7)" for a reason that is none of the signals.
[[nodiscard]] std::string stop_reason_name(int reason);

}  // namespace meshwork
