// Which communicators have two levels, and what their siblings make of it. That the operations are
// right over them is in transport.cpp.
#include "collectives/hierarchical_transport.h"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "collectives/error.h"
#include "collectives/nodes.h"
#include "tests/support/catch.h"

namespace meshwork::hierarchical_test {

using namespace std::chrono_literals;

namespace {

/// The sum of the terms of all ranks.
float sum_over(Transport& transport, const Communicator& communicator, float term) {
  transport.run(communicator, AllReduce{ElementType::float32, Reduction::sum, 1}, &term);
  return term;
}

}  // namespace

TEST_CASE("nodes hold equally many consecutive ranks, or they do not") {
  const Communicator world = Communicator::world();
  const int size = world.size();
  CHECK(Nodes(world, 1).ranks_each(world) == 1);
  CHECK(Nodes(world, size).ranks_each(world) == size);
  CHECK(Nodes(world).ranks_each(world) == size);
  CHECK(Nodes(world, 2).ranks_each(world) == (size % 2 == 0 ? 2 : size == 1 ? 1 : 0));
  CHECK(Nodes(world, 2).split(world).size() == (world.rank() == size - 1 && size % 2 == 1 ? 1 : 2));
  CHECK(Nodes(world, 1).most_together(world) == 1);
  CHECK(Nodes(world, 2).most_together(world) == std::min(size, 2));
  CHECK(Nodes(world).most_together(world) == size);
  if (size % 4 == 0) {
    // Nodes of two, but the ranks of each stand apart.
    const Communicator apart = world.split(0, world.rank() % 2 * size + world.rank());
    CHECK(Nodes(world, 2).ranks_each(apart) == 0);
    CHECK(Nodes(world, 4).ranks_each(world.split(world.rank() % 2, world.rank())) == 2);
  }
}

TEST_CASE("who waits for a whole reduction does not wait for one in parts before it") {
  const Communicator world = Communicator::world();
  if (world.size() != 8) return;
  const Progress progress = GENERATE(Progress::none, Progress::polls);
  const auto transport = make_hierarchical_transport(world, {.ranks_a_node = 2}, progress);
  const int half = world.rank() / 4;
  const Communicator ranks = world.split(half, world.rank());
  transport->prepare(world);
  transport->prepare(ranks);
  std::vector<float> parts(5003, 1.0f), whole(100, 1.0f);
  const auto start_parts = [&] {
    return transport->start(
        world, AllReduce{ElementType::float32, Reduction::sum, std::ssize(parts), true},
        parts.data());
  };
  if (half == 0) {
    Pending older = start_parts();
    transport
        ->start(ranks, AllReduce{ElementType::float32, Reduction::sum, std::ssize(whole)},
                whole.data())
        .wait();
    CHECK(whole == std::vector<float>(100, 4.0f));
    // Only now the others start the older one.
    check_mpi(MPI_Send(nullptr, 0, MPI_BYTE, world.rank() + 4, 0, world.native()), "MPI_Send");
    older.wait();
  } else {
    check_mpi(
        MPI_Recv(nullptr, 0, MPI_BYTE, world.rank() - 4, 0, world.native(), MPI_STATUS_IGNORE),
        "MPI_Recv");
    start_parts().wait();
  }
  const auto [part, of] = transport->sharers(world);
  CHECK(parts[static_cast<std::size_t>(part_begin(5003, part, of, ElementType::float32))] == 8.0f);
}

TEST_CASE("an all-gather between nodes that was started goes on beside a reduction on the node") {
  const Communicator world = Communicator::world();
  if (world.size() % 4 != 0) return;
  const Progress progress = GENERATE(Progress::none, Progress::polls);
  const auto transport = make_hierarchical_transport(world, {.ranks_a_node = 2}, progress);
  const Communicator node = world.split(world.rank() / 2, world.rank());
  const Communicator peers = world.split(world.rank() % 2, world.rank());
  for (const Communicator* const ranks : {&world, &node, &peers}) transport->prepare(*ranks);
  const auto nodes = static_cast<std::size_t>(peers.size());
  constexpr std::int64_t count = 3000;
  AllGather gather{ElementType::float32, std::vector<std::int64_t>(nodes, count), {}};
  std::vector<float> sum(count, 1.0f), own(count, static_cast<float>(world.rank()));
  std::vector<float> all(nodes * count), expected;
  for (std::size_t peer = 0; peer < nodes; ++peer) {
    gather.offsets.push_back(static_cast<std::int64_t>(peer) * count);
    const auto rank = static_cast<float>(2 * peer) + static_cast<float>(world.rank() % 2);
    expected.insert(expected.end(), count, rank);
  }
  Pending summed =
      transport->start(node, AllReduce{ElementType::float32, Reduction::sum, count}, sum.data());
  Pending gathered(transport->compile(peers, gather, Use::started), own.data(), all.data());
  gathered.wait();
  CHECK(all == expected);
  summed.wait();
  CHECK(sum == std::vector<float>(count, 2.0f));
}

TEST_CASE("ranks that are more than the cores that they may run on are crowded") {
  const Communicator world = Communicator::world();
  cpu_set_t usual, one;
  REQUIRE(::sched_getaffinity(0, sizeof usual, &usual) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &usual)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(Nodes(world).is_crowded() == (world.size() > 1));
  REQUIRE(::sched_setaffinity(0, sizeof usual, &usual) == 0);
}

TEST_CASE("how many ranks count as a node is asked of the environment, and checked") {
  const Communicator world = Communicator::world();
  CHECK(::setenv("MESHWORK_RANKS_A_NODE", "1", 1) == 0);
  CHECK(Nodes(world).ranks_each(world) == 1);
  CHECK(make_transport("auto")->name() == "mpi");
  for (const std::string wrong : {"0", "-2", "two", "2x", "99999999999"}) {
    CHECK(::setenv("MESHWORK_RANKS_A_NODE", wrong.c_str(), 1) == 0);
    CHECK_THROWS_WITH(Nodes(world), Catch::Contains("MESHWORK_RANKS_A_NODE is \"" + wrong + "\""));
  }
  CHECK(::setenv("MESHWORK_RANKS_A_NODE", "2", 1) == 0);
  CHECK(make_transport("auto")->name() == (world.size() > 2    ? "hierarchical"
                                           : world.size() == 2 ? "shared"
                                                               : "mpi"));
  CHECK(::unsetenv("MESHWORK_RANKS_A_NODE") == 0);
}

TEST_CASE("a prepared communicator has the ranks of its node as sharers") {
  const Communicator world = Communicator::world();
  if (world.size() % 4 != 0) return;
  const auto transport = make_hierarchical_transport(world, {.ranks_a_node = 2});
  CHECK(transport->sharers(world) == Sharers{0, 1});
  transport->prepare(world);
  CHECK(transport->sharers(world) == Sharers{world.rank() % 2, 2});
  // All on one node, and each on its own.
  const Communicator node = world.split(world.rank() / 2, world.rank());
  transport->prepare(node);
  CHECK(transport->sharers(node) == Sharers{node.rank(), 2});
  const Communicator across = world.split(world.rank() % 2, world.rank());
  transport->prepare(across);
  CHECK(transport->sharers(across) == Sharers{0, 1});
}

TEST_CASE("siblings of which some have no levels have none, and add in one way") {
  const Communicator world = Communicator::world();
  if (world.size() != 8) return;
  const auto transport = make_hierarchical_transport(world, {.ranks_a_node = 2});
  // Ranks 0, 1, 2, 3 on two nodes; and 4, 6, 5, 7, the same but for their order.
  const bool second = world.rank() >= 4;
  const Communicator four =
      world.split(second ? 1 : 0, second ? world.rank() % 2 * 8 + world.rank() : world.rank());
  transport->prepare(four);
  CHECK(transport->sharers(four) == Sharers{0, 1});
  // Terms of which any two orders of adding differ.
  const float terms[] = {1e8f, 1.0f, -1e8f, 3.0f};
  const float sum = sum_over(*transport, four, terms[four.rank()]);
  std::vector<float> all(8);
  check_mpi(MPI_Allgather(&sum, 1, MPI_FLOAT, all.data(), 1, MPI_FLOAT, world.native()),
            "MPI_Allgather");
  for (const float other : all) CHECK(other == sum);
}

TEST_CASE("siblings of unequal length are served, each as a whole") {
  const Communicator world = Communicator::world();
  if (world.size() < 3) return;
  const auto transport = make_hierarchical_transport(world, {.ranks_a_node = 2});
  const Communicator some = world.split(world.rank() == 0 ? 0 : 1, world.rank());
  transport->prepare(some);
  CHECK(transport->sharers(some) == Sharers{0, 1});
  CHECK(sum_over(*transport, some, 1.0f) == static_cast<float>(some.size()));
}

TEST_CASE("operations over nodes and over their ranks alternate with started ones") {
  const Communicator world = Communicator::world();
  if (world.size() % 2 != 0) return;
  const auto transport = make_hierarchical_transport(world, {.ranks_a_node = 2});
  transport->prepare(world);
  const Communicator node = world.split(world.rank() / 2, world.rank());
  transport->prepare(node);
  const Communicator across = world.split(world.rank() % 2, world.rank());
  transport->prepare(across);
  constexpr std::int64_t count = 40'000;
  const TransportMemory memory = transport->allocate(world, 3 * 4 * count);
  auto* const values = reinterpret_cast<float*>(memory.data());
  for (int step = 0; step < 20; ++step) {
    INFO("step " << step);
    std::fill(values, values + 3 * count, static_cast<float>(step + 1));
    Pending first = transport->start(
        world, AllReduce{ElementType::float32, Reduction::sum, count, true}, values);
    Pending second = transport->start(world, AllReduce{ElementType::float32, Reduction::sum, count},
                                      values + count);
    CHECK(sum_over(*transport, node, 1.0f) == static_cast<float>(node.size()));
    CHECK(sum_over(*transport, across, 1.0f) == static_cast<float>(across.size()));
    // Who waits for this one first comes to it when others are at the first already.
    if (world.rank() % 3 != 0 && step % 5 == 0) std::this_thread::sleep_for(5ms);
    Pending third = transport->start(node, AllReduce{ElementType::float32, Reduction::sum, count},
                                     values + 2 * count);
    // Ranks do not wait in one order.
    if (world.rank() % 3 == 0) {
      second.wait();
      first.wait();
      third.wait();
    } else {
      third.wait();
      first.wait();
      second.wait();
    }
    const auto [part, parts] = transport->sharers(world);
    const std::int64_t begin = part_begin(count, part, parts, ElementType::float32);
    const std::int64_t end = part_begin(count, part + 1, parts, ElementType::float32);
    const float expected = static_cast<float>((step + 1) * world.size());
    CHECK(std::count(values + begin, values + end, expected) == end - begin);
    CHECK(std::count(values + count, values + 2 * count, expected) == count);
    CHECK(std::count(values + 2 * count, values + 3 * count,
                     static_cast<float>((step + 1) * node.size())) == count);
    transport->barrier_of_sharers(world);
  }
}

}  // namespace meshwork::hierarchical_test
