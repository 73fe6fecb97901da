// Ways in which a rank does not come, one for each argument, on ranks that are watched for half a
// second. What the watchdog says of it is what the tests look at (CMakeLists.txt here). With
// "between_" before its name, each rank is a node, and a thread brings collectives on.
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/error.h"
#include "collectives/last_words.h"
#include "collectives/stop_signals.h"
#include "collectives/transport.h"
#include "collectives/watchdog.h"

using namespace meshwork;

namespace {

using std::chrono::milliseconds;

[[noreturn]] void loop_for_ever() {
  for (std::atomic<long> turn = 0;; turn.fetch_add(1, std::memory_order_relaxed)) {
  }
}

int run(std::string way, int argc, char** argv) {
  const std::string prefix = "between_";
  const bool between = way.starts_with(prefix);
  if (between) {
    way.erase(0, prefix.size());
    ::setenv("MESHWORK_RANKS_A_NODE", "1", 1);
  }
  MpiEnvironment environment(&argc, &argv);
  const StopSignals signals;
  const Communicator world = Communicator::world();
  const auto transport = make_transport("mpi");
  transport->prepare(world);
  std::optional<LastWords> words;
  if (way == "killed") {
    words.emplace(world, std::vector<std::string>(static_cast<std::size_t>(world.size()), "board"));
  }
  const double limit = way == "terminated" || way == "killed" ? 0 : 0.5;
  Watchdog watchdog(world, {.seconds = limit});
  CollectiveTrace& trace = watchdog.trace();
  const bool is_last = world.rank() == world.size() - 1;
  const auto reduce = [&](const std::string& what) {
    const TracedCollective inside(&trace, trace.label(what));
    double value = 1;
    if (between) {
      transport->start(world, AllReduce{ElementType::float64, Reduction::sum, 1}, &value).wait();
    } else {
      transport->run(world, AllReduce{ElementType::float64, Reduction::sum, 1}, &value);
    }
  };
  for (int step = 0; step < 20; ++step) reduce("sum of step " + std::to_string(step));
  if (way == "slow") {
    // The others wait, but not too long; all are long outside of collectives.
    for (int step = 0; step < 3; ++step) {
      std::this_thread::sleep_for(milliseconds(is_last ? 800 : 500));
      reduce("slow");
    }
  }
  if (way == "looping" && is_last) {
    const TracedActivity activity(&trace, trace.label("layer d7"));
    loop_for_ever();
  }
  if (way == "root" && world.rank() == 0) std::this_thread::sleep_for(std::chrono::hours(1));
  if (way == "stopped" && is_last) std::raise(SIGSTOP);
  if (way == "elsewhere" && is_last) {
    // In a collective, but in one that the others have not come to.
    const TracedCollective inside(&trace, trace.label("gradients of d1"));
    loop_for_ever();
  }
  if (way == "killed" && is_last) std::raise(SIGKILL);
  if (way == "terminated") {
    if (is_last) std::this_thread::sleep_for(std::chrono::hours(1));
    if (world.rank() == 0) std::raise(SIGTERM);
  }
  if (way == "beside") {
    // The thread that trains goes on; one beside it waits for its like on the last rank.
    std::thread([&] {
      CollectiveTrace& beside = watchdog.trace_beside();
      const TracedActivity activity(&beside, beside.label("bringing it to the disk"));
      if (is_last) loop_for_ever();
      const TracedCollective inside(&beside, beside.label("agreement after writing"));
      loop_for_ever();
    }).detach();
    for (;;) {
      reduce("gradients of d1");
      std::this_thread::sleep_for(milliseconds(10));
    }
  }
  reduce("gradients of d1");
  if (world.rank() == 0) std::cout << "it went on" << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "", argc, argv);
  } catch (const std::exception& error) {
    abort_job(1, error.what());
  }
}
