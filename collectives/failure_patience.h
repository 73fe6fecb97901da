// How long a rank that has failed waits for the others to fail as well.
//
// They may wait in a collective for this rank, and never come. Then it ends the job with its message. So
// would a watchdog of the others, which knows that they wait, and not why: the message has to come before.
#pragma once

#include <chrono>

namespace meshwork {

/// `longest`, or less where a watchdog of this process has a short limit. A call between ranks that may
/// take half of that limit, and this patience after it, end before the watchdog speaks.
[[nodiscard]] std::chrono::duration<double> failure_patience(std::chrono::duration<double> longest);

/// There is a watchdog of this limit as long as it lives. From any thread.
class WatchdogLimit {
 public:
  explicit WatchdogLimit(double seconds);
  ~WatchdogLimit();
  WatchdogLimit(const WatchdogLimit&) = delete;
  WatchdogLimit& operator=(const WatchdogLimit&) = delete;

 private:
  double seconds_;
};

}  // namespace meshwork
