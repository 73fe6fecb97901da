// How a rank waits for a change in shared memory.
//
// It looks again and again: first spinning with a pause between looks, for a few microseconds; then
// giving the processor away between looks (sched_yield), which is what makes more ranks than cores
// work; then, after some milliseconds, sleeping a twentieth of the time that it has waited, at most
// a millisecond. So nobody has to be woken, and nobody who is woken late makes others much later.
//
// How long to spin is learned: it is halved whenever spinning was in vain and doubled when it was
// not. Where ranks share cores it soon is next to nothing.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace meshwork {

/// One wait after another, of one thread.
class SharedWaiting {
 public:
  /// `at_leisure` is called from time to time while a wait does not spin any more: to let other
  /// work go on, and to throw if the wait is in vain. It gets the time waited, in seconds.
  using AtLeisure = std::function<void(double)>;

  explicit SharedWaiting(AtLeisure at_leisure) : at_leisure_(std::move(at_leisure)) {}

  /// Returns when `ready()`, which is called often, is true.
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
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t round = 0; !ready(); ++round) give_way(round, start);
  }

 private:
  // A look with its pause takes 10 to 60 ns.
  static constexpr int fewest_looks = 4;
  static constexpr int most_looks = 256;

  /// Leaves the processor's resources to its other hardware thread for a moment, where it can.
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }

  void give_way(std::int64_t round, std::chrono::steady_clock::time_point start);

  AtLeisure at_leisure_;
  int looks_ = most_looks;
};

}  // namespace meshwork
