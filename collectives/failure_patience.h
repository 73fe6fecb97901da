// How long a rank that has failed waits for the others to fail as well.
//
// The others may wait for it in a collective, and never fail. Then the rank ends the job with its
// message. Before that, a watchdog of the others must not end the job. It knows that they wait, but
// not why.
#pragma once

#include <chrono>

namespace meshwork {

/// `longest`, or less where a watchdog of this process has a short limit. A call between ranks may
/// take half of that limit. The call and this patience together end before the watchdog speaks.
[[nodiscard]] std::chrono::duration<double> failure_patience(std::chrono::duration<double> longest);

/// While it lives, the process has a watchdog of this limit, in seconds. From any thread.
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
