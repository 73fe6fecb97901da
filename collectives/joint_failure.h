// One outcome of something that all ranks did.
//
// A rank that fails goes on with every collective call that the others wait in, and only remembers
// what went wrong; afterwards all hear of it.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "collectives/communicator.h"
#include "collectives/trace.h"

namespace meshwork {

/// Collects what goes wrong on one rank.
class Failures {
 public:
  /// Runs `action` and remembers what it throws, if it is the first.
  void attempt(const std::function<void()>& action);
  [[nodiscard]] bool any() const { return !first_.empty(); }
  [[nodiscard]] const std::string& first() const { return first_; }

 private:
  std::string first_;
};

/// The failure of the lowest rank that has one, the same on all ranks; "" if none has. It begins
/// with "rank R: ", its number in the job, unless all ranks have the same. Collective; ranks wait for
/// each other asleep, and `at` records the waiting. With `patience`, a rank that failed where the
/// others may be unable to come ends the job with its failure if they do not come in that time.
[[nodiscard]] std::string joint_failure(const Communicator& communicator, const std::string& own,
                                        const TracePoint& at = {},
                                        std::optional<std::chrono::seconds> patience = {});

}  // namespace meshwork
