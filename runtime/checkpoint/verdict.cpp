#include "runtime/checkpoint/verdict.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/data/hdf5_handles.h"

namespace meshwork {
namespace {

// The smallest value of all ranks. Waits asleep; after `patience` ends the job with `last_words`.
int smallest(const Communicator& communicator, int value,
             std::optional<std::chrono::seconds> patience = {},
             const std::string& last_words = "") {
  const auto start = std::chrono::steady_clock::now();
  int result = value;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(&value, &result, 1, MPI_INT, MPI_MIN, communicator.native(), &request),
            "MPI_Iallreduce");
  std::chrono::microseconds pause{20};
  for (;;) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) {
      return result;
    }
    if (patience && std::chrono::steady_clock::now() - start > *patience) {
      abort_job(1, last_words);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds{1000});
  }
}

}  // namespace

void Failures::attempt(const std::function<void()>& action) {
  std::string failure;
  try {
    action();
    return;
  } catch (const std::exception& error) {
    failure = error.what();
  } catch (...) {
    failure = "an exception of unknown type";
  }
  if (first_.empty()) {
    first_ = failure.empty() ? "a failure that says nothing" : failure;
  }
}

std::string joint_failure(const Communicator& communicator, const std::string& own,
                          const TracePoint& at, std::optional<std::chrono::seconds> patience) {
  const TracedCollective inside(at);
  const int mine = own.empty() ? communicator.size() : communicator.rank();
  if (own.empty()) {
    patience.reset();
  }
  const int lowest = smallest(communicator, mine, patience, own);
  if (lowest == communicator.size()) {
    return "";
  }
  std::string text = broadcast_text(communicator, own, lowest);
  const bool same = smallest(communicator, own == text ? 1 : 0) != 0;
  return same ? text : fmt::format("rank {}: {}", lowest, text);
}

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
