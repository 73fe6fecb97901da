// Whether started all-reduces between nodes go on beside what a rank does, and come to the same
// bits however they are brought on. That they are right is in transport.cpp.
#include "collectives/mpi_reductions.h"

#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collectives/error.h"
#include "collectives/hierarchical_transport.h"
#include "collectives/mpi_transport.h"
#include "collectives/nodes.h"
#include "tests/support/catch.h"

namespace meshwork::mpi_reductions_test {

namespace {

constexpr std::int64_t large =
    300'000;  // elements: several messages, and more than are sent unasked

std::unique_ptr<Transport> made(const std::string& name, Progress progress) {
  const Communicator world = Communicator::world();
  if (name == "hierarchical") {
    return make_hierarchical_transport(world, {.ranks_a_node = 2}, progress);
  }
  return make_mpi_transport(
      {.nodes = std::make_shared<const Nodes>(world, 1), .progress = progress});
}

/// Terms of which any two orders of adding differ, for one rank and bucket.
void fill(std::span<float> values, int rank, int bucket) {
  std::mt19937 drawn(static_cast<unsigned>(100 * bucket + rank));
  std::uniform_real_distribution<float> term(-1, 1);
  for (float& value : values) value = term(drawn) * static_cast<float>(1 << drawn() % 20);
}

/// Sums of buckets, all of them under way at once, as this rank gets them.
std::vector<float> sums_of_buckets(Transport& transport, const Communicator& world, bool in_parts) {
  const std::vector<std::int64_t> counts{large, 1, 0, 70'000, 5000};
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total += count;
  transport.prepare(world);
  const TransportMemory memory = transport.allocate(world, 4 * total);
  const std::span<float> values(reinterpret_cast<float*>(memory.data()),
                                static_cast<std::size_t>(total));
  std::vector<Pending> pending;
  std::int64_t begin = 0;
  for (std::size_t bucket = 0; bucket < counts.size(); ++bucket) {
    fill(values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(counts[bucket])),
         world.rank(), static_cast<int>(bucket));
    pending.push_back(transport.start(
        world, AllReduce{ElementType::float32, Reduction::sum, counts[bucket], in_parts},
        values.data() + begin));
    begin += counts[bucket];
    transport.advance();
  }
  std::vector<float> sums;
  const auto [part, parts] = in_parts ? transport.sharers(world) : Sharers{};
  begin = 0;
  for (std::size_t bucket = 0; bucket < counts.size(); ++bucket) {
    pending[bucket].wait();
    const float* const from = values.data() + begin;
    sums.insert(sums.end(), from + part_begin(counts[bucket], part, parts, ElementType::float32),
                from + part_begin(counts[bucket], part + 1, parts, ElementType::float32));
    begin += counts[bucket];
  }
  transport.barrier_of_sharers(world);
  return sums;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

}  // namespace

TEST_CASE("the bits of a sum do not depend on who brings it on") {
  const Communicator world = Communicator::world();
  const std::string name = GENERATE("mpi", "hierarchical");
  const bool in_parts = GENERATE(false, true);
  INFO(name << (in_parts ? ", in parts" : ""));
  const std::vector<float> expected = sums_of_buckets(*made(name, Progress::none), world, in_parts);
  for (const Progress progress : {Progress::thread, Progress::polls}) {
    const auto transport = made(name, progress);
    CHECK(same_bits(sums_of_buckets(*transport, world, in_parts), expected));
    // Once more, with what was used before.
    CHECK(same_bits(sums_of_buckets(*transport, world, in_parts), expected));
  }
}

TEST_CASE("ranks may differ in who brings their reductions on") {
  const Communicator world = Communicator::world();
  const std::string name = GENERATE("mpi", "hierarchical");
  const std::vector<float> expected = sums_of_buckets(*made(name, Progress::none), world, true);
  constexpr Progress kinds[] = {Progress::thread, Progress::polls, Progress::none};
  CHECK(same_bits(sums_of_buckets(*made(name, kinds[world.rank() % 3]), world, true), expected));
}

TEST_CASE("a started reduction comes to its end without being waited for") {
  const Communicator world = Communicator::world();
  const std::string name = GENERATE("mpi", "hierarchical");
  const Progress progress = GENERATE(Progress::thread, Progress::polls);
  const auto transport = made(name, progress);
  transport->prepare(world);
  const TransportMemory memory = transport->allocate(world, 4 * large);
  auto* const values = reinterpret_cast<float*>(memory.data());
  std::fill_n(values, large, 1.0f);
  Pending pending =
      transport->start(world, AllReduce{ElementType::float32, Reduction::sum, large, true}, values);
  // Nothing here calls MPI but, where it is asked to, `advance`.
  while (!pending.is_complete()) {
    if (transport->wants_advancing()) transport->advance();
    std::this_thread::yield();
  }
  pending.wait();
  const auto [part, parts] = transport->sharers(world);
  CHECK(values[part_begin(large, part, parts, ElementType::float32)] ==
        static_cast<float>(world.size()));
  transport->barrier_of_sharers(world);
}

TEST_CASE("a reduction that nobody brings on is not over before it is waited for") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  const auto transport = made("mpi", Progress::none);
  transport->prepare(world);
  std::vector<float> values(large, 1.0f);
  Pending pending = transport->start(world, AllReduce{ElementType::float32, Reduction::sum, large},
                                     values.data());
  transport->advance();
  CHECK_FALSE(pending.is_complete());
  pending.wait();
  CHECK(pending.is_complete());
  CHECK(values.back() == static_cast<float>(world.size()));
}

TEST_CASE("other operations go on while reductions are under way") {
  const Communicator world = Communicator::world();
  const std::string name = GENERATE("mpi", "hierarchical");
  const auto transport = made(name, GENERATE(Progress::thread, Progress::polls, Progress::none));
  transport->prepare(world);
  const TransportMemory memory = transport->allocate(world, 4 * large);
  auto* const values = reinterpret_cast<float*>(memory.data());
  const auto ranks = static_cast<std::size_t>(world.size());
  for (int step = 0; step < 20; ++step) {
    std::fill_n(values, large, static_cast<float>(step));
    Pending pending = transport->start(
        world, AllReduce{ElementType::float32, Reduction::sum, large, true}, values);
    float one = 1;
    transport->run(world, AllReduce{ElementType::float32, Reduction::sum, 1}, &one);
    CHECK(one == static_cast<float>(world.size()));
    std::vector<float> gathered(ranks);
    const float own = static_cast<float>(world.rank());
    std::vector<std::int64_t> offsets;
    for (int rank = 0; rank < world.size(); ++rank) offsets.push_back(rank);
    transport->run(world,
                   AllGather{ElementType::float32, std::vector<std::int64_t>(ranks, 1), offsets},
                   &own, gathered.data());
    CHECK(gathered.back() == static_cast<float>(world.size() - 1));
    check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
    pending.wait();
    const auto [part, parts] = transport->sharers(world);
    CHECK(values[part_begin(large, part, parts, ElementType::float32)] ==
          static_cast<float>(step * world.size()));
    transport->barrier_of_sharers(world);
  }
}

TEST_CASE("more reductions are handed over than there are places, before any is waited for") {
  const Communicator world = Communicator::world();
  const auto transport = made("mpi", GENERATE(Progress::thread, Progress::polls, Progress::none));
  transport->prepare(world);
  constexpr int count = 200;
  std::vector<float> values(count);
  std::vector<Pending> pending;
  for (int i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = static_cast<float>(i);
    pending.push_back(transport->start(world, AllReduce{ElementType::float32, Reduction::sum, 1},
                                       &values[static_cast<std::size_t>(i)]));
  }
  for (auto last = pending.rbegin(); last != pending.rend(); ++last) last->wait();
  for (int i = 0; i < count; ++i) {
    CHECK(values[static_cast<std::size_t>(i)] == static_cast<float>(i * world.size()));
  }
}

TEST_CASE("who brings reductions on is asked of the environment, and checked") {
  CHECK(::setenv("MESHWORK_PROGRESS", "polls", 1) == 0);
  CHECK(settled(Progress::automatic) == Progress::polls);
  CHECK(settled(Progress::thread) == Progress::thread);
  CHECK(::setenv("MESHWORK_PROGRESS", "none", 1) == 0);
  CHECK(settled(Progress::automatic) == Progress::none);
  CHECK(::setenv("MESHWORK_PROGRESS", "often", 1) == 0);
  CHECK_THROWS_WITH(settled(Progress::automatic),
                    Catch::Contains("MESHWORK_PROGRESS is \"often\""));
  CHECK(::unsetenv("MESHWORK_PROGRESS") == 0);
  CHECK(settled(Progress::automatic) == Progress::thread);
}

}  // namespace meshwork::mpi_reductions_test
