// Verdict: one outcome of what all ranks did with a file (joint_failure.h), as an error on all.
//
// Unlike `together` (exchange.h), whose ranks end the job if the others do not come within seconds,
// ranks here wait for each other as long as a disk may take, so that training goes on beside them.
#pragma once

#include <functional>
#include <string>

#include "collectives/communicator.h"
#include "collectives/error.h"
#include "collectives/joint_failure.h"
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
