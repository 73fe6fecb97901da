#include "collectives/hosted.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "collectives/error.h"
#include "collectives/joint_failure.h"

namespace meshwork {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int tag = 1;
// How long a rank that failed waits for the others to fail as well before it tells them.
constexpr std::chrono::milliseconds patience{500};
// How long a wait goes on after a failure was heard of. If all ranks have come to it, it ends in this
// time, and none of them is left alone with what follows.
constexpr std::chrono::milliseconds grace{200};

std::atomic<Hosted*> hosted = nullptr;

/// Looks again and again: at once for a while, then less and less often.
class Pauses {
 public:
  void pause() {
    if (Clock::now() - start_ < std::chrono::milliseconds(1)) {
      ::sched_yield();
      return;
    }
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(pause_ * 2, std::chrono::microseconds(500));
  }

 private:
  Clock::time_point start_ = Clock::now();
  std::chrono::microseconds pause_{10};
};

}  // namespace

Hosted* Hosted::current() {
  return hosted;
}

Hosted::Hosted(const Communicator& ranks, bool messages)
    : channel_(ranks.duplicate()),
      endings_(ranks.duplicate()),
      messages_(messages),
      heard_(longest) {
  int taken = hosted != nullptr ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_INT, MPI_MAX, endings_.native()),
            "MPI_Allreduce");
  if (taken > 0) {
    fail("a rank of this communicator is in another Runtime on a communicator already");
  }
  listen();
  hosted = this;
}

Hosted::~Hosted() {
  if (broken_) {
    channel_.leave();
    endings_.leave();
  } else if (listening_ != MPI_REQUEST_NULL) {
    // If it cannot be cancelled, it stays until MPI ends.
    (void)MPI_Cancel(&listening_);
    (void)MPI_Wait(&listening_, MPI_STATUS_IGNORE);
  }
  hosted = nullptr;
}

void Hosted::listen() {
  check_mpi(MPI_Irecv(heard_.data(), static_cast<int>(longest), MPI_CHAR, MPI_ANY_SOURCE, tag,
                      channel_.native(), &listening_),
            "MPI_Irecv for announcements of failures");
}

bool Hosted::hear() {
  int done = 0;
  MPI_Status status;
  check_mpi(MPI_Test(&listening_, &done, &status), "MPI_Test for announcements of failures");
  if (done == 0) return false;
  int length = 0;
  check_mpi(MPI_Get_count(&status, MPI_CHAR, &length), "MPI_Get_count");
  ++announcements_heard_;
  if (failure_.empty()) failure_.assign(heard_.data(), static_cast<std::size_t>(length));
  listen();
  return true;
}

void Hosted::look() {
  const std::scoped_lock lock(mutex_);
  if (concluding_) return;
  if (!failed_here_) (void)hear();
  if (failed_here_ || !failure_.empty()) throw RanksParted(failure_);
}

void Hosted::fail_here(const std::string& message) {
  const std::scoped_lock lock(mutex_);
  if (!failure_.empty()) return;  // whose cause is another
  failure_ = message;
  failed_here_ = true;
}

void Hosted::announce(const std::string& message) {
  const std::string text = fmt::format("rank {}: {}", channel_.rank(), message);
  announced_.assign(text.begin(),
                    text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), longest)));
  for (int rank = 0; rank < channel_.size(); ++rank) {
    if (rank == channel_.rank()) continue;
    check_mpi(MPI_Isend(announced_.data(), static_cast<int>(announced_.size()), MPI_CHAR, rank, tag,
                        channel_.native(), &announcing_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend of an announcement of a failure");
  }
}

void Hosted::conclude(const std::string& failure, bool is_cause) {
  const bool caused_here = !failure.empty() && (is_cause || failed_here_);
  // All ranks come here in the end: those that wait for one that failed hear of it.
  int failures = failure.empty() ? 0 : 1;
  MPI_Request all_here = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Iallreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, endings_.native(), &all_here),
      "MPI_Iallreduce");
  const Clock::time_point start = Clock::now();
  Pauses pauses;
  bool told = false;
  for (;;) {
    int done = 0;
    check_mpi(MPI_Test(&all_here, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) break;
    if (caused_here && !told && Clock::now() - start > patience) {
      announce(failure);
      told = true;
    }
    pauses.pause();
  }
  if (failures == 0) return;

  concluding_ = true;
  int counts[2] = {told ? 1 : 0, broken_ ? 1 : 0};
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, counts, 2, MPI_INT, MPI_SUM, endings_.native()),
            "MPI_Allreduce");
  std::string joint = joint_failure(endings_, caused_here ? failure : "");
  // No rank that is still there has caused it.
  if (joint.empty()) joint = joint_failure(endings_, failure);
  const int others = counts[0] - (told ? 1 : 0);
  {
    const std::scoped_lock lock(mutex_);
    while (announcements_heard_ < others) {
      if (!hear()) pauses.pause();
    }
    announcements_heard_ = 0;
    failure_.clear();
    failed_here_ = false;
  }
  check_mpi(
      MPI_Waitall(static_cast<int>(announcing_.size()), announcing_.data(), MPI_STATUSES_IGNORE),
      "MPI_Waitall for announcements of failures");
  announcing_.clear();
  broken_ = counts[1] > 0;
  concluding_ = false;
  throw Error(joint);
}

void abort_or_break(const std::string& message) noexcept {
  if (Hosted* const job = hosted) {
    job->fail_here(message);
    job->leave_wait();
  } else {
    abort_job(1, message);
  }
}

void await_ranks(MPI_Comm ranks) {
  if (hosted == nullptr) return;
  MPI_Request come = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(ranks, &come), "MPI_Ibarrier");
  await({&come, 1}, "MPI_Ibarrier");
}

bool end_soon(std::span<MPI_Request> requests) {
  const Clock::time_point start = Clock::now();
  Pauses pauses;
  int done = 0;
  while (done == 0 && Clock::now() - start < grace) {
    check_mpi(
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
        "MPI_Testall");
    pauses.pause();
  }
  return done != 0;
}

void await(std::span<MPI_Request> requests, std::string_view operation) {
  Hosted* const job = hosted;
  if (job == nullptr) {
    check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
              operation);
    return;
  }
  Pauses pauses;
  for (;;) {
    int done = 0;
    check_mpi(
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
        operation);
    if (done != 0) return;
    try {
      job->look();
    } catch (const RanksParted&) {
      if (end_soon(requests)) return;
      job->leave_wait();
      throw;
    }
    pauses.pause();
  }
}

}  // namespace meshwork
