#include "runtime/train/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/failed_write.h"
#include "collectives/failure_patience.h"
#include "collectives/last_words.h"
#include "collectives/printable.h"
#include "collectives/rank_names.h"
#include "collectives/wrong_input.h"
#include "runtime/train/reporting/terminal.h"

namespace meshwork {
namespace {

// How long a rank that failed waits for the others to fail as well (failure_patience.h).
constexpr std::chrono::seconds longest_patience{5};
// The same of one that has failed since another is gone, where a launcher has sent SIGTERM for that: it
// leaves a second to say so.
constexpr std::chrono::milliseconds patience_at_the_end{100};

[[noreturn]] void end_on_exception() {
  std::string message = "the program ended without an exception that says why";
  int status = 1;
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Stopped& stopped) {
      message = stopped.what();
      status = stopped_status(stopped.reason());
    } catch (const std::exception& error) {
      message = error.what();
    } catch (...) {
      message = "an exception of a type that says nothing";
    }
  }
  abort_job(status, message);
}

// The one message of a job whose ranks have all ended: that of the lowest rank which names a cause.
// By rank, a cause or else what says only that others have gone.
std::string one_message(const std::vector<std::string>& causes,
                        const std::vector<std::string>& partings) {
  const auto first = std::find_if(causes.begin(), causes.end(),
                                  [](const std::string& cause) { return !cause.empty(); });
  if (first == causes.end()) {
    return partings.front();
  }
  const auto others = std::count_if(causes.begin(), causes.end(), [&](const std::string& cause) {
    return !cause.empty() && cause != *first;
  });
  if (others == 0 && first == causes.begin()) {
    return *first;
  }
  const int rank = name_of_rank(static_cast<int>(first - causes.begin()));
  const std::string text = fmt::format("rank {}: {}", rank, *first);
  return others == 0 ? text
                     : fmt::format("{} ({} other rank{} failed as well)", text, others,
                                   others == 1 ? "" : "s");
}

// In the handler of the signals.
void hear_signal(void* request, int number) {
  static_cast<StopRequest*>(request)->ask(number);
}

}  // namespace

Runtime::Runtime(int& argc, char**& argv)
    : environment_(std::in_place, &argc, &argv),
      world_(Communicator::world()),
      endings_(world_.duplicate()),
      outer_handler_(std::set_terminate(end_on_exception)) {}

Runtime::Runtime(MPI_Comm communicator, HostedOptions options)
    : world_(Communicator::duplicate_of(communicator)),
      endings_(world_.duplicate()),
      hosted_(std::in_place, world_, options.messages),
      within_(std::in_place, world_) {}

Runtime::Runtime(const Runtime&, Communicator ranks)
    : world_(std::move(ranks)), endings_(world_.duplicate()), within_(std::in_place, world_) {}

Runtime::~Runtime() {
  if (hosted_ && hosted_->is_broken()) {
    world_.leave();
    endings_.leave();
  }
  if (outer_handler_) std::set_terminate(*outer_handler_);
}

void Runtime::run(const std::function<void()>& body) {
  if (!hosted_) {
    body();
    return;
  }
  if (hosted_->is_broken()) fail("ranks have left waits of this Runtime; make another one");
  std::string failure;
  bool is_cause = true;
  try {
    body();
  } catch (const RanksParted& parted) {
    failure = parted.what();
    is_cause = false;
  } catch (const std::exception& error) {
    failure = message_of(error);
    if (failure.empty()) failure = "an exception that says nothing";
  } catch (...) {
    failure = "an exception of a type that says nothing";
  }
  hosted_->conclude(failure, is_cause);
}

const StopRequest& Runtime::stop_request() {
  if (!signals_ && !hosted_) {
    signals_.emplace(hear_signal, &stop_request_);
  }
  return stop_request_;
}

int Runtime::agreed_stop(int own) {
  int largest = own;
  await_ranks(world_);
  check_mpi(MPI_Allreduce(&own, &largest, 1, MPI_INT, MPI_MAX, world_.native()), "MPI_Allreduce");
  return largest;
}

int Runtime::attempt(int status, const std::function<void()>& body) {
  if (hosted_) fail("attempt is of a program of its own; on a communicator of yours, call run");
  try {
    body();
    return 0;
  } catch (const Stopped& stopped) {
    return conclude(stopped_status(stopped.reason()), stopped.what());
  } catch (const RanksParted& parted) {
    // The rank that is gone may have left for a reason, which it says if the others come to hear.
    return conclude(1, parted.what(), true);
  } catch (const FailedWrite& failure) {
    return conclude(1, failure.what());
  } catch (const WrongInput& wrong) {
    return conclude(2, wrong.what());
  } catch (const Error& error) {
    return conclude(status, error.what());
  } catch (const std::exception& error) {
    return conclude(1, message_of(error));
  }
}

int Runtime::conclude(int status, const std::string& message, bool parted) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(endings_.native(), &request) != MPI_SUCCESS) {
    abort_job(status, message);
  }
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::duration<double> patience = failure_patience(longest_patience);
  for (int done = 0; done == 0;) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    const bool is_ended = parted && LastWords::are_kept() &&
                          received_stop_signal() == StopSignal::terminate &&
                          waited > patience_at_the_end;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || waited > patience ||
        is_ended) {
      abort_job(status, message);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  const std::vector<std::string> causes = gather_texts(endings_, parted ? "" : message);
  const std::vector<std::string> partings = gather_texts(endings_, parted ? message : "");
  if (is_root() && LastWords::claim()) {
    std::fflush(stdout);
    const std::string text = printable(one_message(causes, partings));
    std::fprintf(stderr, "%s\n", coloured(text, Colour::red, STDERR_FILENO).c_str());
    std::fflush(stderr);
  }
  // Of ranks that say nothing the others are asked first.
  const auto order = parted ? world_.size() + rank() : rank();
  const std::array<int, 2> own{order, status};
  std::array<int, 2> first = own;
  check_mpi(MPI_Allreduce(own.data(), first.data(), 1, MPI_2INT, MPI_MINLOC, endings_.native()),
            "MPI_Allreduce");
  // Whoever starts the ranks may end all of them when the first one ends with a status, so nobody
  // does before it is said.
  check_mpi(MPI_Barrier(endings_.native()), "MPI_Barrier");
  return first[1];
}

}  // namespace meshwork
