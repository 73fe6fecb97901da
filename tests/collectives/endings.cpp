// Ways in which a job ends before its time, one for each argument. On ranks other than 0 the job is
// often inside a collective that rank 0 never joins. With "between_" before its name, each rank is
// a node, and a thread brings collectives on.
#include <mpi.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/transport.h"

using namespace meshwork;

namespace {

void wait_for_all(const Communicator& world) {
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
}

void end_pending(const std::string& how, const Communicator& world) {
  const auto transport = make_transport("mpi");
  transport->prepare(world);
  float values[2] = {1, 2};
  Pending pending =
      transport->start(world, AllReduce{ElementType::float32, Reduction::sum, 2}, values);
  if (how == "replaced") pending = Pending();
  if (how == "unwound") throw Error("this text is lost");
}

// The last rank ends while a thread of each other brings a reduction on that it never joins.
void end_between_nodes(const std::string& how, const Communicator& world) {
  const auto transport = make_transport("mpi");
  transport->prepare(world);
  std::vector<float> values(500'000, 1);
  const auto start = [&] {
    return transport->start(
        world, AllReduce{ElementType::float32, Reduction::sum, std::ssize(values)}, values.data());
  };
  start().wait();
  if (world.rank() == world.size() - 1) {
    if (how == "killed") std::raise(SIGKILL);
    if (how == "failed") abort_job(1, "no such file");
    if (how == "quit") std::_Exit(5);
  }
  start().wait();
}

int run(std::string how, int argc, char** argv) {
  const std::string prefix = "between_";
  const bool between = how.starts_with(prefix);
  if (between) {
    how.erase(0, prefix.size());
    ::setenv("MESHWORK_RANKS_A_NODE", "1", 1);
  }
  MpiEnvironment environment(&argc, &argv);
  const Communicator world = Communicator::world();
  if (how == "destroyed" || how == "replaced" || how == "unwound") end_pending(how, world);
  if (between) end_between_nodes(how, world);
  if (how == "left") {
    if (world.rank() == 0) throw Error("nobody reports this");
    wait_for_all(world);
  }
  if (how == "aborted") {
    std::cout << "said before\n";  // not flushed
    if (world.rank() == 0) abort_job(7, "it is enough");
    wait_for_all(world);
  }
  if (how == "died") {
    // Without a watchdog, and with SIGTERM, by which a launcher ends the others, put off for long.
    std::signal(SIGTERM, SIG_IGN);
    const auto transport = make_transport("shared");
    std::vector<float> values(100'000, 1);
    try {
      for (int step = 0;; ++step) {
        if (step == 10 && world.rank() == world.size() - 1) std::raise(SIGKILL);
        transport->run(world, AllReduce{ElementType::float32, Reduction::sum, 100'000},
                       values.data());
      }
    } catch (const std::exception& error) {
      abort_job(1, error.what());
    }
  }
  if (how == "alone") {
    together(world, [&] {
      if (world.rank() == 0) fail("no such file");
      wait_for_all(world);
    });
  }
  std::cout << "it went on" << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  if (how == "aborted_without_mpi") {
    std::cout << "said before\n";
    abort_job(7, "it is enough");
  }
  try {
    return run(how, argc, argv);
  } catch (const std::exception&) {
    return 0;
  }
}
