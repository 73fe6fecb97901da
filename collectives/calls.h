// Calls: a rank runs a function on another rank and has its answer later.
//
//     Calls calls(ranks);                                       // all ranks
//     calls.define("reverse", [](int caller, CallPayload text) {
//       std::ranges::reverse(text.front);
//       return text;
//     });
//     calls.open();                                             // from now on it answers
//     Answer answer = calls.call(2, "reverse", {.front = "abc"});
//     ...                                                       // this rank goes on
//     answer.get().front;                                       // "cba"
//     calls.close();                                            // all ranks
//
// Words. The *caller* sends a *request* to the *callee*, whose *function* has the request's name.
// The callee sends an *answer*: what the function returned, or the message of what it threw. An
// `Answer` is the caller's end of it. Functions are defined on each rank by itself, so ranks may
// have different ones. Here payloads are bytes (call_payload.h); runtime/rpc gives them types.
//
// What is guaranteed:
//   - A call ends once: with the answer, with the error of the far function, after its time limit, or
//     because the callee is gone. A late answer is dropped.
//   - A caller notices that the callee is gone while it waits in `get` or `wait_for`, on the same node.
//     `close`, which waits for all ranks, notices any that has gone without closing. Between nodes, the
//     time limit or the launcher ends the wait.
//   - No request is lost or run twice. A rank that has not opened yet keeps requests until it does. One
//     exception: a function that calls others takes their answers before it returns. The service may
//     end before a request whose answer such a function dropped.
//   - No call waits for the callee's program, which may compute, or wait in a collective. Threads of
//     the service do the work. They use communicators of their own and share no lock with a step.
//   - Functions of a rank run one at a time, so what they share needs no lock. One that waits for an
//     answer lets others run meanwhile; so functions that call each other in a circle do not block.
//
// Who looks at MPI. One thread at a time has the *role* (a mutex), as in mpi_reductions.h. A rank
// that waits in `get` takes it, so that an answer meets a thread that is awake. Otherwise the
// *leader* has it, one of the service's threads. The leader runs functions in its own thread, since
// handing them over takes longer than most. Another thread, the *standby*, looks each millisecond
// while the rank is awake, and takes over from a leader that has not come back from its function.
// From a leader whose function waits for an answer it takes over at once. There is one more standby
// whenever the last one has become leader. With nothing to do for some milliseconds, the leader
// sleeps until it is rung (call_bells.h), and so does the standby. An idle service costs a step
// twenty looks a second.
//
// How much may be under way. A rank has at most `window` requests at a callee; the rest wait at the
// caller, so a callee's memory is bounded by its callers. Requests that a function makes do not
// count: they are part of a request that already does, which could not end while they waited.
//
// Without MPI_THREAD_MULTIPLE there are no threads (MESHWORK_PROGRESS=polls asks for the same). The
// program's thread then serves: in `call`, which sends, in `get`, `serve` and `progress`, which
// also run functions, and in `close`. So does `advance_calls`, which a model's steps call between
// two instructions. A rank that does none of these answers nobody. The thread must hold no lock
// there that a function takes.
//
// Where the job is hosted (hosted.h), `get` and `close` leave when another rank has failed. While a
// thread waits in them, the trace of its watchdog says for what (thread_trace.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/call_payload.h"
#include "collectives/communicator.h"
#include "collectives/error.h"

namespace meshwork {

/// A far function has thrown. The text begins with its rank and name.
class CallFailed : public Error {
 public:
  using Error::Error;
};

/// The answer has not come in time.
class CallTimedOut : public Error {
 public:
  using Error::Error;
};

/// The callee has no function of that name.
class UnknownFunction : public Error {
 public:
  UnknownFunction(const std::string& what, std::vector<std::string> defined)
      : Error(what), defined_(std::move(defined)) {}
  /// The names of those that it has.
  [[nodiscard]] const std::vector<std::string>& defined() const { return defined_; }

 private:
  std::vector<std::string> defined_;
};

struct CallsOptions {
  /// The time limit of a call that states none, in seconds; 0: there is none.
  double seconds = 0;
  /// Threads bring calls on, where MPI lets them and MESHWORK_PROGRESS does not say otherwise; else
  /// the program's does.
  bool threads = true;
  /// How long the service stays awake when there is nothing to do, in seconds.
  double awake_seconds = 2e-3;
  /// How long `close` waits for one function that still runs here, in seconds. While the function
  /// waits for an answer, that does not count.
  double closing_seconds = 30;
  /// What each rank is called in messages, behind its number: "rank 2 (board)". Empty: nothing.
  std::vector<std::string> titles = {};
};

struct CallOptions {
  /// The time limit in seconds; 0: there is none; negative: that of `CallsOptions`.
  double seconds = -1;
};

class CallService;
struct CallState;

/// What will be the answer of a call. Destroyed before that, the answer is dropped; the function
/// runs all the same. Its `Calls` may be gone: then the call has failed. One thread at a time uses
/// it.
class Answer {
 public:
  Answer() = default;
  Answer(std::shared_ptr<CallService> service, std::shared_ptr<CallState> state);
  Answer(Answer&&) noexcept = default;
  Answer& operator=(Answer&& other) noexcept;
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer();

  /// The name of the function that was called.
  [[nodiscard]] std::string function() const;
  /// Whether `get` would not wait.
  [[nodiscard]] bool is_ready() const;
  /// Waits for at most `seconds`. Whether it is ready. Throws `RanksParted` where the job is over.
  bool wait_for(double seconds);
  /// Waits, and returns what the function returned. Once only. Throws what `Calls::call` says.
  [[nodiscard]] CallPayload get();

 private:
  std::shared_ptr<CallService> service_;
  std::shared_ptr<CallState> state_;
};

/// What a rank runs for others: takes the caller's rank and what it sent. What it throws, the
/// caller gets. It may call, define and wait for answers. It runs in a thread of the service, or
/// where there is none in the program's.
using CallFunction = std::function<CallPayload(int caller, CallPayload arguments)>;

class Calls {
 public:
  /// Between `ranks`, which all call this.
  explicit Calls(const Communicator& ranks, const CallsOptions& options = {});
  /// Closes, unless an error unwinds: then the service ends without the other ranks.
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  /// What this rank answers to `name` with, of 256 bytes at most. Not collective. Throws if it is
  /// defined.
  void define(std::string name, CallFunction function);
  /// This rank answers from now on; requests that have come are answered now. Not collective.
  void open();

  /// Calls the function `name` of `rank`. From any thread, where the service has threads; does not
  /// wait. What `get` of the answer throws: `CallFailed`, `CallTimedOut`, `UnknownFunction`, or
  /// `RanksParted` if the callee is gone, on this node. A call that timed out may still be sent, so
  /// the blocks that it carries have owners, or outlive the service.
  [[nodiscard]] Answer call(int rank, std::string_view name, CallPayload arguments,
                            const CallOptions& options = {});

  /// For a wait that is not in `get`: throws `RanksParted` if `rank`, of this node, is gone and has
  /// not closed. `where` says where this rank waits: "rank 2 has died or left, and rank 0 waits for
  /// it `where`". Costs a system call.
  void require_present(int rank, std::string_view where);

  /// Without threads: looks for what has come, and runs functions. Else it does nothing.
  void progress();
  /// Waits until `ready()`, or for `seconds`. Whether it is ready. Without threads, functions run
  /// meanwhile, and may make it so. `ready` makes no calls: with threads the service is locked
  /// around it. `doing` is for the trace. Throws `Error` if MPI has failed; without threads also
  /// inside of a function, unless it is ready: nothing else could run meanwhile.
  bool serve(const std::function<bool()>& ready, double seconds, const std::string& doing);

  /// Ends the service: waits until all requests of all ranks are answered. Every rank calls it.
  /// Ends the job if one function here runs on for `closing_seconds`. Throws `RanksParted` with the
  /// number of a rank of this node that is gone and has not closed.
  void close();

  /// Whether threads bring calls on.
  [[nodiscard]] bool has_threads() const;
  /// Whether they would, unless `CallsOptions` say otherwise.
  [[nodiscard]] static bool can_have_threads();
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

  /// For tests and benchmarks: looks at MPI so far, and whether the service sleeps.
  [[nodiscard]] std::int64_t looks() const;
  [[nodiscard]] bool is_asleep() const;

 private:
  std::shared_ptr<CallService> service_;
};

/// Whether this thread has made `Calls` without threads that still exist. It has to bring them on
/// itself.
[[nodiscard]] bool has_calls_to_advance();
/// Brings these on, to be put between pieces of work: looks once, and runs one function at most of
/// each. Does nothing for a while (50 us) after that was in vain. Waits for nobody. Whether a
/// function ran.
bool advance_calls();

}  // namespace meshwork
