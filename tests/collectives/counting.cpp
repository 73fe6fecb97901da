#include "collectives/counting.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace meshwork::counting_test {

TEST_CASE("what is counted is what a bandwidth-optimal algorithm sends") {
  const Communicator world = Communicator::world();
  const std::unique_ptr<Transport> inner = make_transport("mpi");
  CountingTransport counting(*inner);
  CHECK(counting.name() == "mpi");
  CHECK(counting.traffic().empty());

  const int n = world.size();
  std::vector<float> buffer(100, 1);
  std::vector<float> other(100, 1);
  counting.run(world, AllReduce{ElementType::float32, Reduction::sum, 10}, buffer.data());
  counting.start(world, AllReduce{ElementType::float32, Reduction::sum, 3}, buffer.data()).wait();
  const std::vector<std::int64_t> counts(n, 3);
  std::vector<std::int64_t> offsets;
  for (int rank = 0; rank < n; ++rank) offsets.push_back(3 * rank);
  counting.run(world, ReduceScatter{ElementType::float32, counts}, buffer.data(), other.data());
  counting.run(world, AllGather{ElementType::float32, counts, offsets}, other.data(),
               buffer.data());
  counting.run(world, AllToAll{ElementType::float32, counts, offsets, counts, offsets},
               buffer.data(), other.data());
  // To the next rank one element more than its number.
  const int next = (world.rank() + 1) % n, previous = (world.rank() + n - 1) % n;
  std::vector<NeighbourBlock> sends, receives;
  if (n > 1) {
    sends = {{next, next + 1, 0}};
    receives = {{previous, world.rank() + 1, 0}};
  }
  counting.run(world, Exchange{ElementType::float32, sends, receives}, buffer.data(), other.data());
  counting.run(world, Broadcast{ElementType::float32, 5, 0}, buffer.data());

  // ceil(2 (n - 1) 10 / n) + ceil(2 (n - 1) 3 / n) elements of 4 bytes; the others: 3 (n - 1).
  const std::map<int, std::int64_t> elements{
      {1, 0 + 0}, {2, 10 + 3}, {3, 14 + 4}, {4, 15 + 5}, {8, 18 + 6}};
  REQUIRE(elements.contains(n));
  const std::int64_t reduced = 4 * elements.at(n);
  const std::int64_t blocks = 12 * (n - 1);
  const std::int64_t exchanged = n > 1 ? 4 * (next + 1) : 0;
  const std::int64_t broadcast = n > 1 && world.rank() == 0 ? 20 : 0;
  CHECK(counting.traffic() == std::vector<Traffic>{{"all_gather", n, 1, blocks},
                                                   {"all_reduce", n, 2, reduced},
                                                   {"all_to_all", n, 1, blocks},
                                                   {"broadcast", n, 1, broadcast},
                                                   {"exchange", n, 1, exchanged},
                                                   {"reduce_scatter", n, 1, blocks}});
  CHECK(counting.operations() == 7);
  CHECK(counting.bytes() == reduced + 3 * blocks + exchanged + broadcast);

  counting.clear();
  CHECK(counting.bytes() == 0);
  CHECK(counting.traffic().empty());
}

TEST_CASE("communicators of different sizes are counted apart") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  const std::unique_ptr<Transport> inner = make_transport("mpi");
  CountingTransport counting(*inner);
  const Communicator self = Communicator::self();
  std::int64_t value = 1;
  counting.run(world, AllReduce{ElementType::int64, Reduction::sum, 1}, &value);
  counting.run(self, AllReduce{ElementType::int64, Reduction::sum, 1}, &value);
  counting.run(world, AllReduce{ElementType::int64, Reduction::maximum, 1}, &value);
  CHECK(value == world.size());
  REQUIRE(counting.traffic().size() == 2);
  CHECK(counting.traffic()[0] == Traffic{"all_reduce", 1, 1, 0});
  CHECK(counting.traffic()[1].ranks == world.size());
  CHECK(counting.traffic()[1].operations == 2);
}

TEST_CASE("an operation that failed is not counted") {
  const std::unique_ptr<Transport> inner = make_transport("mpi");
  CountingTransport counting(*inner);
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(Communicator::world().size() + 1),
                                         0);
  CHECK_THROWS(counting.run(Communicator::world(), ReduceScatter{ElementType::float32, counts},
                            nullptr, nullptr));
  CHECK(counting.operations() == 0);
}

}  // namespace meshwork::counting_test
