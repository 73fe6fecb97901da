// How a job ends whose NCCL fails after an operation was started, or, with an argument, on one rank
// that makes a communicator while the others wait for it inside NCCL: with a message, and soon.
#include <chrono>
#include <cstdio>
#include <thread>

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
  if (argc > 1 && world.rank() == 0) test::nccl_on_host().failing = "ncclCommInitRankConfig";
  transport->prepare(world);
  const Memory memory = device.allocate(400);
  transport->all_reduce(world, ElementType::float32, Reduction::sum, memory.data(), 100);
  test::fail_nccl_later();
  // The processor computes, or waits for the GPU: nothing calls NCCL.
  std::this_thread::sleep_for(std::chrono::seconds(20));
  std::puts("went on");
}
