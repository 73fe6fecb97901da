#include "runtime/checkpoint/verdict.h"

#include "runtime/checkpoint/reader.h"
#include "runtime/data/hdf5_handles.h"

namespace meshwork {

std::string joint_damage(const Communicator& communicator, const std::function<void()>& action,
                         const TracePoint& at) {
  std::string damage;
  std::string refusal;
  Failures failures;
  failures.attempt([&] {
    try {
      action();
    } catch (const DamagedCheckpoint& found) {
      damage = found.what();
    } catch (const SystemFailure& failure) {
      refusal = failure.what();
    }
  });
  agree_that_all_is_well(communicator, failures, at);
  refusal = joint_failure(communicator, refusal, at);
  if (!refusal.empty()) {
    throw JointSystemFailure(refusal);
  }
  return joint_failure(communicator, damage, at);
}

void agree_that_all_is_well(const Communicator& communicator, const Failures& own,
                            const TracePoint& at) {
  const std::string failure = joint_failure(communicator, own.first(), at);
  if (!failure.empty()) {
    throw JointError(failure);
  }
}

}  // namespace meshwork
