// Hosted: a job that is a part of somebody else's program, on ranks which that program gave it.
//
// Such a job never ends the program. What goes wrong on one rank is an exception on all ranks of the
// job. The rank that failed sends a message to the others (`announce`), on a communicator of its own.
// Every wait for other ranks looks for such a message and throws `RanksParted` if there is one. In
// front of a blocking call of MPI the ranks meet in a barrier that they can leave (`await_ranks`);
// requests are tested instead of waited for (`await`).
//
// A rank that leaves a wait leaves a request of MPI pending. The job is then *broken*: its objects may
// only be destroyed, its communicators are not freed, and memory that MPI may still write is kept.
//
// In a job that is a program of its own, MPI does the waiting, and `await_ranks` reads one pointer.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/communicator.h"

namespace meshwork {

class Hosted {
 public:
  /// The process's part in a hosted job; null in a program of its own.
  [[nodiscard]] static Hosted* current();

  /// Makes `ranks`, which all call this, the hosted job for the life of the object. With `messages`
  /// it may print what a program would.
  Hosted(const Communicator& ranks, bool messages);
  ~Hosted();
  Hosted(const Hosted&) = delete;
  Hosted& operator=(const Hosted&) = delete;

  [[nodiscard]] bool prints() const { return messages_; }
  /// A rank has left a wait.
  [[nodiscard]] bool is_broken() const { return broken_; }
  void leave_wait() { broken_ = true; }

  /// Throws `RanksParted` if a rank has told of a failure, or a thread of this rank has. Calls MPI.
  void look();
  /// Lets the next `look` of this rank throw. From any thread; calls no MPI.
  void fail_here(const std::string& message);

  /// Ends a piece of work on all ranks, which all call this: with "" or with what went wrong here,
  /// `is_cause` unless it says only that others have gone. Throws on all the `Error` of the lowest
  /// rank that has a cause, or returns. A rank that failed tells the others if they do not come.
  void conclude(const std::string& failure, bool is_cause);

 private:
  static constexpr std::size_t longest = 1000;  // bytes of an announcement

  void announce(const std::string& message);
  void listen();
  [[nodiscard]] bool hear();

  Communicator channel_;  // for announcements
  Communicator endings_;
  bool messages_;
  std::atomic<bool> broken_ = false;
  std::mutex mutex_;  // threads look
  std::vector<char> heard_;
  MPI_Request listening_ = MPI_REQUEST_NULL;
  int announcements_heard_ = 0;
  std::vector<char> announced_;
  std::vector<MPI_Request> announcing_;
  std::string failure_;  // of another rank, or of this one
  std::atomic<bool> failed_here_ = false;
  std::atomic<bool> concluding_ = false;  // all ranks are in `conclude`, and none waits in vain
};

/// Where the job is hosted, waits until all ranks of `ranks` call this, and throws `RanksParted` if
/// one has failed. In front of every call of MPI that blocks until they come.
void await_ranks(MPI_Comm ranks);
inline void await_ranks(const Communicator& ranks) {
  await_ranks(ranks.native());
}

/// abort_job for destructors and threads, which may not throw: in a hosted job, the next `look` of this
/// rank throws `message`, and the job is broken.
void abort_or_break(const std::string& message) noexcept;

/// Whether the requests end in the time that those need to which all ranks have come.
[[nodiscard]] bool end_soon(std::span<MPI_Request> requests);

/// MPI_Waitall, which is called `operation`, that looks for failures where the job is hosted.
void await(std::span<MPI_Request> requests, std::string_view operation);

}  // namespace meshwork
