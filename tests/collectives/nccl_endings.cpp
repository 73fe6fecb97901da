// How a job ends whose NCCL fails after an operation was started, or, with "alone", on one rank that
// makes a communicator while the others wait for it inside NCCL: with a message, and soon. With
// "unmatched", one rank never joins an operation of the others, which give it up, start no other, and
// end.
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include "collectives/error.h"
#include "collectives/mpi_transport.h"
#include "collectives/nccl/nccl_transport.h"
#include "collectives/staged_transport.h"
#include "tests/support/apart_queues.h"
#include "tests/support/nccl_on_host/control.h"

using namespace meshwork;

int main(int argc, char** argv) {
  const MpiEnvironment environment(&argc, &argv);
  const Communicator world = Communicator::world();
  test::ApartQueues device(true, true);
  const auto transport =
      nccl::make_nccl_transport(world, make_staged_transport(make_mpi_transport(), device), device);
  const std::string_view ending = argc > 1 ? argv[1] : "";
  if (ending == "alone" && world.rank() == 0) {
    test::nccl_on_host().failing = "ncclCommInitRankConfig";
  }
  transport->prepare(world);
  const Memory memory = device.allocate(400);
  if (ending == "unmatched") {
    if (world.rank() > 0) {
      transport->run(world, AllReduce{ElementType::float32, Reduction::sum, 100}, memory.data());
    }
    std::string problem = "it has joined none";
    if (!transport->settle()) {
      transport->give_up();
      try {
        transport->run(world, AllReduce{ElementType::float32, Reduction::sum, 100}, memory.data());
      } catch (const Error& error) {
        problem = error.what();
      }
    }
    std::printf("rank %d has given up: %s\n", world.rank(), problem.c_str());
    return 0;
  }
  transport->run(world, AllReduce{ElementType::float32, Reduction::sum, 100}, memory.data());
  test::fail_nccl_later();
  // The processor computes, or waits for the GPU: nothing calls NCCL.
  std::this_thread::sleep_for(std::chrono::seconds(20));
  std::puts("went on");
}
