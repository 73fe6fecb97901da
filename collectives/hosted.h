// Hosted: a job that is a part of somebody else's program, on ranks which that program gave it.
//
// Such a job never ends the program. What goes wrong on one rank is an exception on all ranks of the
// job. A rank that failed tells the others (`announce`), beside MPI's other messages. They hear of
// it wherever they wait for ranks: before a call of MPI that blocks they meet (`await_ranks`), and
// look for failures until all have come; waits for what was started look as well (`await`). Who
// hears of a failure throws `RanksParted`.
//
// A wait that was left is not over for MPI. The job is then *broken*: what took part in it is only
// good to be destroyed, nothing of it is freed in MPI, and memory that MPI may still write stays.
//
// A job that is a program of its own is not hosted. Waits are MPI's own there, and cost what they
// cost: `await_ranks` looks at one pointer.
#pragma once

#include <mpi.h>

#include <atomic>
#include <mutex>
#include <span>
#include <string>
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
  [[nodiscard]] bool is_broken() const { return broken_; }
  /// A wait was left.
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
  bool broken_ = false;
  std::mutex mutex_;  // threads look
  std::vector<char> heard_;
  MPI_Request listening_ = MPI_REQUEST_NULL;
  int announcements_heard_ = 0;
  std::vector<char> announced_;
  std::vector<MPI_Request> announcing_;
  std::string failure_;  // of another rank, or of this one
  std::atomic<bool> failed_here_ = false;
  bool concluding_ = false;  // all ranks are in `conclude`, and none waits in vain
};

/// Where the job is hosted, waits until all ranks of `ranks` call this, and throws `RanksParted` if
/// one has failed. In front of every call of MPI that blocks until they come.
void await_ranks(MPI_Comm ranks);
inline void await_ranks(const Communicator& ranks) {
  await_ranks(ranks.native());
}

/// MPI_Waitall, which is called `operation`, that looks for failures where the job is hosted.
void await(std::span<MPI_Request> requests, std::string_view operation);

}  // namespace meshwork
