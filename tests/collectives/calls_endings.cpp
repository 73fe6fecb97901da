// Ways in which calls between ranks keep a job from going on, one for each argument. The last rank is
// to blame. What is said of it is what the tests look at (CMakeLists.txt here).
#include <mpi.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "collectives/calls.h"
#include "collectives/error.h"
#include "collectives/transport.h"
#include "collectives/watchdog.h"

using namespace meshwork;

namespace {

void run(std::string way) {
  const std::string prefix = "polls_";
  const bool polls = way.starts_with(prefix);
  if (polls) way.erase(0, prefix.size());
  const Communicator world = Communicator::world();
  const auto transport = make_transport("mpi");
  transport->prepare(world);
  const bool is_watched = way == "watched" || way == "closing_alone";
  Watchdog watchdog(world, {.seconds = is_watched ? 0.5 : 0});
  CollectiveTrace& trace = watchdog.trace();
  Calls calls(world, {.threads = !polls, .closing_seconds = 0.5});
  const int last = world.size() - 1;
  calls.define("die", [](int, CallPayload) -> CallPayload {
    std::raise(SIGKILL);
    return {};
  });
  calls.define("hang", [](int, CallPayload) -> CallPayload {
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  });
  calls.define("wait for hang",
               [&](int, CallPayload) -> CallPayload { return calls.call(last, "hang", {}).get(); });
  calls.open();
  if (way == "died") {
    // SIGTERM, by which a launcher ends the others, is put off for long.
    std::signal(SIGTERM, SIG_IGN);
    check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
    if (world.rank() == last) {
      for (;;) calls.progress();
    }
    static_cast<void>(calls.call(last, "die", {}).get());
  }
  if (way == "hanging_inside") {
    Answer answer = calls.call(last, "wait for hang", {});
    calls.close();
  }
  if (way == "hanging") {
    Answer answer = calls.call(last, "hang", {});
    calls.close();
  }
  if (way == "died_at_the_end") {
    std::signal(SIGTERM, SIG_IGN);
    check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
    if (world.rank() == last) std::raise(SIGKILL);
    calls.close();
  }
  if (is_watched) {
    if (world.rank() == 0 && way == "watched") {
      static_cast<void>(calls.call(last, "hang", {}).get());
    }
    if (world.rank() == 0 && way == "closing_alone") calls.close();
    const TracedCollective inside(&trace, trace.label("gradients of d1"));
    double value = 1;
    transport->run(world, AllReduce{ElementType::float64, Reduction::sum, 1}, &value);
  }
  if (way == "unwound") {
    Answer answer = calls.call(last, "hang", {});
    if (world.rank() == last) fail("no such file");
    static_cast<void>(answer.get());
  }
  std::cout << "it went on" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment environment(&argc, &argv);
  try {
    run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    abort_job(1, error.what());
  }
}
