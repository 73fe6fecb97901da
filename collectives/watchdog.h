// Watchdog: ends a job whose ranks wait for one that does not come, and names that rank.
//
// A thread on each rank, the *watcher*, looks at the rank's trace (trace.h) a few times a second.
// It calls no MPI and shares nothing with the thread that it watches but the trace, so it works
// whatever that thread hangs in. There are two traces on a rank, each of a thread that
// communicates: the one that trains, and the one beside it that writes checkpoints. Each is
// compared with its like on the other ranks. A rank whose position has not changed for `seconds` is
// *stuck*: inside a collective it waits for others, outside it may be computing. Collectives that a
// device works off (enqueued.h) count as what the rank is inside of until they are done, wherever
// its thread is: it waits for the device in the end, for a loss, say. A stuck rank that is inside
// prints the last collectives that it entered. Every stuck rank reports its position to
// rank 0 through the side channel, again and again while it is stuck. Two seconds after the first
// report of a rank inside a collective, rank 0 compares: the ranks with the lowest position are
// those that the others wait for. It ends the job with a message that names them, what they are
// doing and what they did last, and the collective to which they do not come.
//
// What is guaranteed. If a rank waits inside one collective for `seconds`, the job ends, at most
// `patience` (15 s) later, and each waiting rank has said which collective it waits in. If the side
// channel delivers, which on one node it does, the message names the lagging rank, and if that rank
// still runs threads (it computes, sleeps, waits for a lock, a file or memory), also what it does.
// A rank that runs nothing at all (stopped, or on a machine that is gone) is named as one that has
// not been heard of. If nothing reaches rank 0, or rank 0 itself runs nothing, the waiting ranks
// end the job themselves, naming their collective only.
//
// The watchers also end a job that was told to by SIGTERM but cannot leave its step, because a rank
// that died will never come to the collective that this one waits in: five seconds after the signal
// if the rank has been waiting all that time. That is what launchers send when a rank has died.
#pragma once

#include <memory>

#include "collectives/communicator.h"
#include "collectives/thread_trace.h"
#include "collectives/trace.h"

namespace meshwork {

struct WatchdogOptions {
  /// How long a rank may wait inside one collective. Not a limit for the work between collectives
  /// as such, but for what the slowest rank does while the others wait. 0: as long as it likes.
  double seconds = 1800;
};

/// The exit status of a job that was ended because a rank did not come.
inline constexpr int hang_status = 3;

class Watchdog {
 public:
  /// Watches `ranks`, which all call this. A single rank is not watched, since nobody waits for it.
  Watchdog(const Communicator& ranks, const WatchdogOptions& options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// What this rank writes. It is there whether or not anybody watches. Waits of the thread that made
  /// the watchdog find it by themselves (thread_trace.h).
  [[nodiscard]] CollectiveTrace& trace() { return trace_; }
  /// Nobody watches any more.
  void stop();
  /// The same of a thread that communicates beside the one that `trace` is of.
  [[nodiscard]] CollectiveTrace& trace_beside() { return beside_; }

 private:
  class Watcher;

  CollectiveTrace trace_;
  CollectiveTrace beside_;
  ThreadTrace of_thread_{trace_};
  std::unique_ptr<Watcher> watcher_;  // reads the traces, so it goes first
};

}  // namespace meshwork
