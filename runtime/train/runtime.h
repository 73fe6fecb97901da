// Runtime: the ranks of a program for as long as it runs, and how they end when something fails.
//
//     int main(int argc, char** argv) {
//       Runtime runtime(argc, argv);
//       DeviceMesh mesh({{"data", -1}});
//       ...
//     }
//
// An exception that nobody catches ends the job: its message is printed with the number and host of
// the rank, and no other rank is left waiting. A program that would rather return an exit status
// puts its work into `attempt`, which also tells an error that all ranks have met, and that is
// therefore said once, from one that is this rank's alone.
//
// A program that has ranks and work of its own, such as a simulation, gives a Runtime a communicator:
//
//     Runtime runtime(ranks);                     // MPI_Comm, of some or all of its ranks
//     runtime.run([&] {
//       DeviceMesh mesh({{"data", -1}});          // of these ranks
//       ...
//     });
//
// That one never ends the program, takes no signals and prints nothing unless it is told to. What
// `run` throws on one rank, it throws on all of them. Communicators that are disjoint may have a
// Runtime each at the same time; a rank is in one of them.
//
// Signals end a program as they always do, until it asks for `stop_request`: from then on SIGUSR1,
// SIGTERM and SIGINT only ask there, and whoever it was handed to (fit, evaluate, predict) leaves
// when it can. A second SIGINT ends the process at once.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "collectives/communicator.h"
#include "collectives/hosted.h"
#include "collectives/stop_signals.h"
#include "runtime/train/loop/stop_request.h"

namespace meshwork {

struct HostedOptions {
  bool messages = false;  // print warnings, and progress of fit, as a program of its own does
};

class Runtime {
 public:
  /// Initialises MPI for the life of the object, of which a program has one, in `main`. Collective
  /// over the job.
  Runtime(int& argc, char**& argv);
  /// On a communicator of a program that has initialised MPI, with MPI_THREAD_FUNNELED at least. The
  /// job is then its ranks, by their numbers in it. Collective over it; it outlives the object, as MPI
  /// does. Throws `Error` if this rank is in another such job.
  explicit Runtime(MPI_Comm communicator, HostedOptions options = {});
  /// On some of the ranks of `whole`, a program of its own, which do something of their own: the job
  /// is then `ranks`. Collective over these. `whole` outlives it, and is not used meanwhile.
  Runtime(const Runtime& whole, Communicator ranks);
  /// Collective over the job.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] const Communicator& world() const { return world_; }
  [[nodiscard]] int rank() const { return world_.rank(); }
  [[nodiscard]] int size() const { return world_.size(); }
  [[nodiscard]] bool is_root() const { return rank() == 0; }

  /// Asked by SIGUSR1, SIGTERM and SIGINT, with the signal's number as the reason. The first call
  /// takes these signals for the life of the runtime.
  [[nodiscard]] const StopRequest& stop_request();
  /// Asks there, for a reason above 0, as if its signal had come. From any thread.
  void ask_to_stop(int reason) noexcept { stop_request_.ask(reason); }
  /// The largest of the reasons `own` for which the ranks have been asked to stop, the same on all;
  /// 0 for none. Collective over the job.
  [[nodiscard]] int agreed_stop(int own);

  /// Runs `body` and returns 0. Collective over the job. If it throws on all ranks, rank 0 prints
  /// one message, that of the lowest rank which knows more than that others have gone, and all
  /// return `status` if it is an `Error`, else 1: the status for its reason if it is a `Stopped`, 1
  /// if a `FailedWrite`, 2 if a `WrongInput`. The status is that of the rank whose message it is.
  /// If it throws on some ranks only, and the others do not come within 5 s, those end the job with
  /// their messages.
  [[nodiscard]] int attempt(int status, const std::function<void()>& body);

  /// Runs `body`, which lets exceptions out. Collective over the job. On a communicator of a program's, throws on all ranks if
  /// it throws on one of them: the `Error` of the lowest rank that knows a cause, "rank R: ..." unless
  /// all have the same. A rank that still waits for others leaves its wait. Then models, meshes and
  /// the Runtime may only be destroyed, and another Runtime be made. After an error that all ranks met
  /// by themselves, such as a layout that fits no weight, they go on. Calls of MPI that `body` makes by
  /// itself hear of no failure: keep them outside. In a job of its own, `body` is called, and that is
  /// all.
  void run(const std::function<void()>& body);

 private:
  [[nodiscard]] int conclude(int status, const std::string& message, bool parted = false);

  std::optional<MpiEnvironment> environment_;  // of a job of its own
  Communicator world_;
  Communicator endings_;          // apart from all other messages
  std::optional<Hosted> hosted_;  // on a communicator of a program's
  std::optional<JobWithin> within_;
  std::optional<std::terminate_handler> outer_handler_;
  StopRequest stop_request_;
  std::optional<StopSignals> signals_;
};

}  // namespace meshwork
