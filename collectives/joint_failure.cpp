#include "collectives/joint_failure.h"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hosted.h"
#include "collectives/rank_names.h"

namespace meshwork {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds brief_wait{500};

// An exchange that has begun: each rank gets the values of all, or the smallest of them.
class Started {
 public:
  Started(const Communicator& communicator, int value) {
    const int ranks = communicator.size();
    const auto kept = [&](int count) {
      numbers_ = std::make_unique<std::vector<int>>(2 * static_cast<std::size_t>(count), value);
      found_ = std::span(*numbers_).last(static_cast<std::size_t>(count));
    };
    if (ranks <= most_that_gather) {
      kept(ranks);
      check_mpi(MPI_Iallgather(numbers_->data(), 1, MPI_INT, found_.data(), 1, MPI_INT,
                               communicator.native(), &request),
                "MPI_Iallgather");
    } else {
      kept(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))));
      check_mpi(MPI_Iallreduce(numbers_->data(), found_.data(), static_cast<int>(found_.size()),
                               MPI_INT, MPI_MIN, communicator.native(), &request),
                "MPI_Iallreduce");
    }
  }

  /// Where the wait is left, MPI may still write.
  void leave() { (void)numbers_.release(); }
  [[nodiscard]] int smallest() const { return std::ranges::min(found_); }

  MPI_Request request = MPI_REQUEST_NULL;

 private:
  // Each wait of an operation that was started takes a rank's turn on its core. To gather is one round
  // of messages of all to all. To reduce takes Open MPI twice the logarithm of the ranks in rounds;
  // but of fewer elements than half of the ranks it makes twice as many rounds as there are ranks.
  static constexpr int most_that_gather = 16;

  std::unique_ptr<std::vector<int>> numbers_;
  std::span<int> found_;
};

// The smallest value of all ranks. A rank with `last_words` ends the job with them where MPI fails,
// or the others do not come in the time of its `patience`.
int smallest(const Communicator& communicator, int value, const std::string& last_words = "",
             std::optional<std::chrono::seconds> patience = {}) {
  const Clock::time_point start = Clock::now();
  if (communicator.size() == 1) return value;
  Started started(communicator, value);
  const auto leave = [&] {
    if (Hosted* const hosted = Hosted::current()) hosted->leave_wait();
    started.leave();
  };
  std::chrono::microseconds pause{20};
  bool brief = true;  // as most waits are; an MPI_Test moves an operation by one of its rounds
  for (;;) {
    int done = 0;
    const int code = MPI_Test(&started.request, &done, MPI_STATUS_IGNORE);
    const Clock::duration waited = Clock::now() - start;
    const bool late = patience && waited > *patience;
    if (!last_words.empty() && (code != MPI_SUCCESS || (done == 0 && late))) {
      leave();
      abort_job(1, last_words);
    }
    check_mpi(code, "MPI_Test");
    if (done != 0) return started.smallest();
    if (Hosted* const hosted = Hosted::current()) {
      try {
        hosted->look();
      } catch (const RanksParted&) {
        if (end_soon({&started.request, 1})) return started.smallest();
        leave();
        throw;
      }
    }
    if (brief) {
      brief = waited < brief_wait;
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds{1000});
    }
  }
}

}  // namespace

void Failures::attempt(const std::function<void()>& action) {
  std::string failure;
  try {
    action();
    return;
  } catch (const std::exception& error) {
    failure = message_of(error);
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
  const int lowest = smallest(communicator, mine, own, patience);
  // The others cannot have heard that all is well. If it seems so, a collective of theirs was
  // answered by this one.
  if (lowest > mine) abort_job(1, own);
  if (lowest == communicator.size()) return "";
  const std::string text = broadcast_text(communicator, own, lowest);
  if (smallest(communicator, own == text ? 1 : 0) != 0) return text;
  int rank = name_of_rank(Communicator::world().rank());
  await_ranks(communicator);
  check_mpi(MPI_Bcast(&rank, 1, MPI_INT, lowest, communicator.native()), "MPI_Bcast");
  return fmt::format("rank {}: {}", rank, text);
}

}  // namespace meshwork
