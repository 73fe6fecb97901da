// How a rank waits for a change in shared memory.
//
// It looks again and again: first *spinning*, with a pause between looks, for a few microseconds;
// then *yielding*, giving the processor away between looks (sched_yield), which costs next to
// nothing while nobody else wants it; then *sleeping* until the ranks that it waits for ring
// (shared_bells.h), or for some milliseconds at most.
//
// How long to spin and whether to yield is learned. Spinning is halved whenever it was in vain and
// doubled when it was not: where ranks share cores it soon is next to nothing. A yield that takes
// long has lent the core to somebody who computes, and who keeps it for a slice of the scheduler:
// who yields gets it back last, who sleeps and is woken gets it first. So after such a yield a rank
// sleeps in this wait and in the next one too, then in two and in four if it happens again. Not in
// more: where nobody else computes, to sleep takes several times as long as to yield.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "collectives/shared_bells.h"

namespace meshwork {

/// One wait after another, of one thread.
class SharedWaiting {
 public:
  /// `at_leisure` is called from time to time while a wait does not spin any more: to let other
  /// work go on, and to throw if the wait is in vain. It gets the time waited, in seconds.
  /// `awaited` says whose doing ends the wait: a rank's number in the job, or SharedBells::anyone.
  using AtLeisure = std::function<void(double)>;
  using Awaited = std::function<int()>;

  SharedWaiting(const SharedBells& bells, AtLeisure at_leisure, Awaited awaited)
      : bells_(bells), at_leisure_(std::move(at_leisure)), awaited_(std::move(awaited)) {}

  /// Returns when `ready()`, which is called often, is true. What makes it true is followed by a
  /// ring, or is done by `ready` or `at_leisure` itself.
  template <class Ready>
  void until(const Ready& ready) {
    for (int look = 0; look < looks_; ++look) {
      if (ready()) {
        if (look > 0) looks_ = std::min(2 * looks_, most_looks);
        return;
      }
      pause();
    }
    looks_ = std::max(looks_ / 2, fewest_looks);
    const Clock::time_point start = Clock::now();
    for (int round = 0; !ready(); ++round) {
      if (yield(round, start)) continue;
      const int awaited = awaited_();
      const SharedBells::Listening listening(bells_, awaited);
      at_leisure_(seconds_since(start));
      if (ready()) return;
      if (awaited_() != awaited) continue;  // that rank has come meanwhile
      listening.sleep(std::clamp(seconds_since(start), shortest_sleep, longest_sleep));
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  // A look with its pause takes 10 to 60 ns.
  static constexpr int fewest_looks = 4;
  static constexpr int most_looks = 256;
  static constexpr int most_waits_without = 4;                          // yields
  static constexpr double shortest_sleep = 1e-3, longest_sleep = 8e-3;  // seconds, if nobody rings

  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  /// Leaves the processor's resources to its other hardware thread for a moment, where it can.
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }

  /// Yields once. False: it is time to sleep.
  bool yield(int round, Clock::time_point start);

  const SharedBells& bells_;
  AtLeisure at_leisure_;
  Awaited awaited_;
  int looks_ = most_looks;
  int waits_without_ = 0;       // after the next long yield
  int waits_without_left_ = 0;  // of those after the last one
  bool yields_ = true;          // in this wait
};

}  // namespace meshwork
