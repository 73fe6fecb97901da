// Verdict: one outcome of something that all ranks did.
//
// In writing a file, a rank that fails goes on with every collective call that the others wait in,
// and only remembers what went wrong; afterwards all hear of it. Unlike `together` (exchange.h),
// whose ranks end the job if the others do not come within seconds, ranks here wait for each other
// as long as a disk may take, and asleep, so that training goes on beside them.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "collectives/communicator.h"
#include "collectives/error.h"
#include "collectives/trace.h"

namespace meshwork {

/// A failure that all ranks know of, with the same text. Whatever else is thrown where ranks work
/// together is one rank's alone, for which others may wait.
class JointError : public Error {
 public:
  using Error::Error;
};

/// The system has failed on some rank (`SystemFailure`), which may pass.
class JointSystemFailure : public JointError {
 public:
  using JointError::JointError;
};

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
/// with "rank R: " unless all ranks have the same. Collective; `at` records the waiting. With
/// `patience`, a rank that failed where the others may be unable to come ends the job with its
/// failure if they do not come in that time.
[[nodiscard]] std::string joint_failure(const Communicator& communicator, const std::string& own,
                                        const TracePoint& at = {},
                                        std::optional<std::chrono::seconds> patience = {});

/// Runs `action` on every rank. Gives what it throws of damage (`DamagedCheckpoint`) on any of
/// them, as `joint_failure` does; "" for none. Anything else that it throws on any rank is thrown
/// on all: a `SystemFailure` as a `JointSystemFailure`, the rest as a `JointError`. Collective.
[[nodiscard]] std::string joint_damage(const Communicator& communicator,
                                       const std::function<void()>& action,
                                       const TracePoint& at = {});

/// Throws the joint failure as a `JointError`, on all ranks, if there is one. Collective.
void agree_that_all_is_well(const Communicator& communicator, const Failures& own,
                            const TracePoint& at = {});

}  // namespace meshwork
