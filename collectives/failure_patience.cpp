#include "collectives/failure_patience.h"

#include <algorithm>
#include <mutex>
#include <set>

namespace meshwork {

namespace {

// Of a watchdog's limit. A call may take half of it. Together they are less than the whole.
constexpr double part_of_limit = 0.4;

struct WatchdogLimits {
  std::mutex mutex;
  std::multiset<double> seconds;
};
WatchdogLimits& watchdog_limits() {
  static WatchdogLimits all;
  return all;
}

}  // namespace

std::chrono::duration<double> failure_patience(std::chrono::duration<double> longest) {
  WatchdogLimits& all = watchdog_limits();
  const std::scoped_lock lock(all.mutex);
  if (all.seconds.empty()) return longest;
  return std::min(longest, std::chrono::duration<double>(part_of_limit * *all.seconds.begin()));
}

WatchdogLimit::WatchdogLimit(double seconds) : seconds_(seconds) {
  WatchdogLimits& all = watchdog_limits();
  const std::scoped_lock lock(all.mutex);
  all.seconds.insert(seconds_);
}

WatchdogLimit::~WatchdogLimit() {
  WatchdogLimits& all = watchdog_limits();
  const std::scoped_lock lock(all.mutex);
  all.seconds.erase(all.seconds.find(seconds_));
}

}  // namespace meshwork
