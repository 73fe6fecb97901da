#include "collectives/shared_waiting.h"

#include <sched.h>

namespace meshwork {

namespace {

constexpr int rounds_between_leisure = 16;
constexpr double yielding = 2e-3;  // seconds in a wait
// Between ranks that wait or reduce a yield takes microseconds, up to a few hundred; another
// program keeps the core for a slice of milliseconds.
constexpr double long_yield = 1e-3;

}  // namespace

bool SharedWaiting::yield(int round, Clock::time_point start) {
  if (round == 0) {
    yields_ = waits_without_left_ == 0;
    if (!yields_) --waits_without_left_;
  }
  if (!yields_) return false;
  const double before = seconds_since(start);
  if (before > yielding) {
    yields_ = false;
    waits_without_ /= 2;  // none was long
    return false;
  }
  if (round % rounds_between_leisure == rounds_between_leisure - 1) at_leisure_(before);
  ::sched_yield();
  if (seconds_since(start) - before > long_yield) {
    yields_ = false;
    waits_without_ = std::clamp(2 * waits_without_, 1, most_waits_without);
    waits_without_left_ = waits_without_;
  }
  return true;
}

}  // namespace meshwork
