// That a rank with nothing to do sleeps, and who wakes it.
#include "collectives/shared_bells.h"

#include <mpi.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "collectives/error.h"
#include "collectives/transport.h"
#include "tests/support/catch.h"
#include "tests/support/processor_seconds.h"

namespace meshwork::shared_bells_test {

namespace {

void wait_for_all(const Communicator& world) {
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
}

}  // namespace

TEST_CASE("a listener is woken by the rank that it listens for, and by no other") {
  const Communicator world = Communicator::world();
  const SharedBells bells(world);
  if (world.size() < 3) return;
  const int last = world.size() - 1;
  const std::vector<SharedBells::Bell*> first = bells.of(std::vector{0});
  const int awaited = GENERATE(1, SharedBells::anyone);
  const auto start = std::chrono::steady_clock::now();
  if (world.rank() == 0) {
    const SharedBells::Listening listening(bells, awaited);
    wait_for_all(world);
    listening.sleep(300);
    wait_for_all(world);
  } else {
    wait_for_all(world);
    if (world.rank() == last) bells.ring(first);
    if (awaited == 1 && world.rank() == last) CHECK(first[0]->awaited != 0);
    if (world.rank() == last) {
      check_mpi(MPI_Send(nullptr, 0, MPI_BYTE, 1, 0, world.native()), "MPI_Send");
    }
    if (world.rank() == 1) {
      check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, last, 0, world.native(), MPI_STATUS_IGNORE),
                "MPI_Recv");
      bells.ring(first);
    }
    wait_for_all(world);
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(150));
}

TEST_CASE("a rank that waits for long leaves the processor to others") {
  const Communicator world = Communicator::world();
  const auto transport = make_transport("shared");
  const int kind = GENERATE(0, 1, 2);
  std::vector<float> values(kind == 0 ? 10 : 100'000, 1);
  const auto count = std::ssize(values);
  const auto run = [&] {
    if (kind < 2) {
      transport->run(world, AllReduce{ElementType::float32, Reduction::sum, count}, values.data());
    } else {
      transport->start(world, AllReduce{ElementType::float32, Reduction::sum, count}, values.data())
          .wait();
    }
  };
  run();
  const double before = test::processor_seconds();
  if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  run();
  // To wait is to look again a few hundred times, each some microseconds.
  CHECK(test::processor_seconds() - before < 0.3);
}

}  // namespace meshwork::shared_bells_test
