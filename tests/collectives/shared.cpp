// What shared memory adds to the tests that every transport passes (transport.cpp): buffers in
// memory that the transport gave, and long mixtures of operations.
#include "collectives/hierarchical_transport.h"
#include "collectives/shared_transport.h"

#include <mpi.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "collectives/mpi_transport.h"
#include "collectives/shared_memory.h"
#include "tests/support/allocations.h"
#include "tests/support/catch.h"

namespace meshwork::shared_test {

namespace {

const SharedGroupOptions little_room{.small_bytes = 64,
                                     .blocks_bytes = 128,
                                     .slot_bytes = 1024,
                                     .slots = 2,
                                     .calls = 3,
                                     .chunk_bytes = 64,
                                     .chunks = 2};

/// The usual sizes, for ranks with cores of their own or without; or sizes so small that everything
/// goes in many rounds.
enum class Room { usual, crowded, little };
std::unique_ptr<Transport> shared_transport(Room room) {
  return make_shared_transport(Communicator::world(),
                               {.group = room == Room::little ? little_room : SharedGroupOptions(),
                                .crowded = room == Room::crowded});
}
std::unique_ptr<Transport> shared_transport() {
  return shared_transport(GENERATE(Room::usual, Room::crowded, Room::little));
}

void wait_for_all(const Communicator& world) {
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
}

/// Terms of either sign and many magnitudes, whose sum depends on the order of adding.
float term(int rank, std::int64_t i) {
  return static_cast<float>(std::sin(1.0 + 12.9898 * static_cast<double>(i) + 78.233 * rank) *
                            std::pow(10.0, static_cast<double>((i + 3 * rank) % 5)));
}

/// The sum over `ranks` ranks in their order, as one float after the other.
float ordered_sum(int ranks, std::int64_t i) {
  float sum = term(0, i);
  for (int rank = 1; rank < ranks; ++rank) sum += term(rank, i);
  return sum;
}

std::int64_t count_wrong_sums(int ranks, const float* sums, std::int64_t count) {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count; ++i) wrong += sums[i] == ordered_sum(ranks, i) ? 0 : 1;
  return wrong;
}

}  // namespace

TEST_CASE("memory that a transport gives is zero, and seen by all ranks of the node") {
  const auto transport = make_transport(GENERATE("mpi", "shared"));
  const Communicator world = Communicator::world();
  const std::int64_t bytes = world.rank() == 1 ? 0 : 5000 + 4 * world.rank();
  const TransportMemory memory = transport->allocate(world, bytes);
  CHECK(memory.bytes() == bytes);
  CHECK(std::all_of(memory.data(), memory.data() + bytes,
                    [](std::byte value) { return value == std::byte{0}; }));
  CHECK((bytes == 0 || reinterpret_cast<std::uintptr_t>(memory.data()) % 4096 == 0));
  wait_for_all(world);
  std::fill_n(memory.data(), bytes, static_cast<std::byte>(world.rank() + 1));
  wait_for_all(world);
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::span<const std::byte> part = memory.of(rank);
    if (transport->name() == "mpi" && rank != world.rank()) {
      CHECK(part.empty());
      continue;
    }
    CHECK(std::ssize(part) == (rank == 1 ? 0 : 5000 + 4 * rank));
    CHECK(std::ranges::all_of(
        part, [&](std::byte value) { return value == static_cast<std::byte>(rank + 1); }));
  }
  wait_for_all(world);
}

TEST_CASE("a sum takes the ranks in their order, wherever the buffers are") {
  const Communicator world = Communicator::world();
  const Room room = GENERATE(Room::usual, Room::crowded, Room::little);
  const auto transport = shared_transport(room);
  const bool started = GENERATE(false, true);
  // Nobody's, everybody's, or only some ranks' buffers are in shared memory.
  const int first_in_memory = GENERATE(0, 1, 99);
  for (const std::int64_t count : {1, 15, 16, 17, 500, 1003, 5003, 70001}) {
    // Each round costs a turn of the scheduler where others want the cores.
    if (count > 5003 && (room == Room::little || world.size() > 4)) continue;
    INFO(count << " elements, in shared memory from rank " << first_in_memory);
    // At another place on each rank.
    const std::int64_t offset = 8 + 4 * world.rank();
    const TransportMemory memory = transport->allocate(world, (count + 64) * 4);
    std::vector<float> own(static_cast<std::size_t>(count));
    float* buffer = world.rank() >= first_in_memory
                        ? reinterpret_cast<float*>(memory.data()) + offset
                        : own.data();
    for (int call = 0; call < 2; ++call) {
      for (std::int64_t i = 0; i < count; ++i) buffer[i] = term(world.rank(), i);
      if (started) {
        transport->start(world, AllReduce{ElementType::float32, Reduction::sum, count}, buffer)
            .wait();
      } else {
        transport->run(world, AllReduce{ElementType::float32, Reduction::sum, count}, buffer);
      }
      CHECK(count_wrong_sums(world.size(), buffer, count) == 0);
    }
  }
}

TEST_CASE("the other collectives read shared memory in place, and private memory beside it") {
  const Communicator world = Communicator::world();
  const auto transport = shared_transport();
  const int ranks = world.size();
  const int here = world.rank();
  const int first_in_memory = GENERATE(0, 1);
  // What is posted with a note; small, and yet read in place; too much for one round of the usual
  // sizes.
  const std::int64_t block = GENERATE(10, 200, 9001);
  const std::int64_t total = block * ranks;
  const TransportMemory memory = transport->allocate(world, total * 8);
  std::vector<std::int64_t> own(static_cast<std::size_t>(total));
  std::int64_t* send =
      here >= first_in_memory ? reinterpret_cast<std::int64_t*>(memory.data()) : own.data();
  std::vector<std::int64_t> receive(static_cast<std::size_t>(total));
  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), block);
  std::vector<std::int64_t> offsets(counts.size());
  for (int rank = 0; rank < ranks; ++rank) offsets[static_cast<std::size_t>(rank)] = rank * block;
  // Another one each time: who reads too late reads the next.
  int fills = 0;
  const auto value = [&](int rank, std::int64_t i) { return 1000 * rank + i % 777 + 7 * fills; };
  const auto fill = [&] {
    ++fills;
    for (std::int64_t i = 0; i < total; ++i) send[i] = value(here, i);
    std::ranges::fill(receive, -1);
  };
  for (int call = 0; call < 2; ++call) {
    fill();
    transport->run(world, ReduceScatter{ElementType::int64, counts}, send, receive.data());
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < block; ++i) {
      std::int64_t expected = 0;
      for (int rank = 0; rank < ranks; ++rank) expected += value(rank, here * block + i);
      wrong += receive[static_cast<std::size_t>(i)] == expected ? 0 : 1;
    }
    CHECK(wrong == 0);

    fill();
    transport->run(world, AllGather{ElementType::int64, counts, offsets}, send, receive.data());
    wrong = 0;
    for (std::int64_t i = 0; i < total; ++i) {
      const int from = static_cast<int>(i / block);
      wrong += receive[static_cast<std::size_t>(i)] == value(from, i % block) ? 0 : 1;
    }
    CHECK(wrong == 0);

    fill();
    transport->run(world, AllToAll{ElementType::int64, counts, offsets, counts, offsets}, send,
                   receive.data());
    wrong = 0;
    for (std::int64_t i = 0; i < total; ++i) {
      const int from = static_cast<int>(i / block);
      wrong +=
          receive[static_cast<std::size_t>(i)] == value(from, here * block + i % block) ? 0 : 1;
    }
    CHECK(wrong == 0);

    const int root = call % ranks;
    fill();
    transport->run(world, Broadcast{ElementType::int64, total, root}, send);
    wrong = 0;
    for (std::int64_t i = 0; i < total; ++i) wrong += send[i] == value(root, i) ? 0 : 1;
    CHECK(wrong == 0);
  }
}

TEST_CASE("to gather into one memory of all ranks says when it is whole, and writes nothing") {
  const Communicator world = Communicator::world();
  const auto transport = shared_transport();
  // Small, and more than small.
  const std::int64_t length = GENERATE(2, 200, 9001);
  std::vector<std::int64_t> counts, offsets;
  std::int64_t total = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    counts.push_back(rank == 2 ? 0 : length + rank);
    offsets.push_back(total);
    total += counts.back();
  }
  const TransportMemory memory = transport->allocate(world, world.rank() == 0 ? total * 8 : 0);
  auto* const gathered = reinterpret_cast<std::int64_t*>(memory.of(0).data());
  const auto here = static_cast<std::size_t>(world.rank());
  const auto pages = static_cast<std::size_t>((total * 8 + 4095) / 4096 * 4096);
  for (int call = 0; call < 5; ++call) {
    for (std::int64_t i = 0; i < counts[here]; ++i) gathered[offsets[here] + i] = call + i;
    REQUIRE(::mprotect(gathered, pages, PROT_READ) == 0);
    transport->run(world, AllGather{ElementType::int64, counts, offsets}, gathered + offsets[here],
                   gathered);
    REQUIRE(::mprotect(gathered, pages, PROT_READ | PROT_WRITE) == 0);
    std::int64_t wrong = 0;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      for (std::int64_t i = 0; i < counts[rank]; ++i) {
        wrong += gathered[offsets[rank] + i] == call + i ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
    transport->barrier_of_sharers(world);
  }
}

TEST_CASE("memory for all ranks serves the communicators of some") {
  const Communicator world = Communicator::world();
  const auto transport = shared_transport();
  const TransportMemory memory = transport->allocate(world, 80'000);
  const Communicator half = world.split(world.rank() % 2, -world.rank());  // in reverse order
  auto* buffer = reinterpret_cast<std::int32_t*>(memory.data());
  std::fill_n(buffer, 20'000, 1 << world.rank());
  transport->run(half, AllReduce{ElementType::int32, Reduction::sum, 20'000}, buffer);
  int expected = 0;
  for (int rank = world.rank() % 2; rank < world.size(); rank += 2) expected += 1 << rank;
  CHECK(std::count(buffer, buffer + 20'000, expected) == 20'000);
  // And memory for some does not make operations of all believe in it.
  const TransportMemory of_half = transport->allocate(half, 80'000);
  buffer = reinterpret_cast<std::int32_t*>(of_half.data());
  std::fill_n(buffer, 20'000, 3);
  transport->run(world, AllReduce{ElementType::int32, Reduction::sum, 20'000}, buffer);
  CHECK(std::count(buffer, buffer + 20'000, 3 * world.size()) == 20'000);
}

TEST_CASE("a long mixture of operations over several communicators keeps them apart") {
  const Communicator world = Communicator::world();
  const auto transport = shared_transport();
  const auto reference = make_mpi_transport();
  const Communicator half = world.split(world.rank() % 2, world.rank());
  const TransportMemory memory = transport->allocate(world, 4 * 3000);
  std::mt19937 common(7);  // the same on all ranks
  const auto choose = [&](int most) {
    return static_cast<int>(common() % static_cast<unsigned>(most));
  };
  std::vector<Pending> pending;
  std::vector<std::vector<std::int32_t>> results;
  std::vector<std::vector<std::int32_t>> expected;
  results.reserve(400);
  std::int64_t wrong = 0;
  for (int turn = 0; turn < 200; ++turn) {
    const Communicator& over = choose(3) == 0 ? half : world;
    const std::int64_t count = choose(4) == 0 ? 1 + choose(3000) : 1 + choose(40);
    const int kind = choose(7);
    const auto parts = static_cast<std::size_t>(over.size());
    std::vector<std::int64_t> counts(parts), offsets(parts);
    for (std::size_t part = 0; part < parts; ++part) {
      offsets[part] = count * static_cast<std::int64_t>(part) / over.size();
      counts[part] = count * static_cast<std::int64_t>(part + 1) / over.size() - offsets[part];
    }
    std::vector<std::int32_t> mine(static_cast<std::size_t>(count));
    for (std::int32_t& value : mine) value = choose(100) + world.rank();
    std::vector<std::int32_t> theirs = mine;
    const auto run = [&](Transport& by, std::vector<std::int32_t>& values) {
      std::vector<std::int32_t> from = values;
      const std::int32_t* own = from.data() + offsets[static_cast<std::size_t>(over.rank())];
      const ElementType type = ElementType::int32;
      if (kind == 0) by.run(over, Broadcast{type, count, turn % over.size()}, values.data());
      if (kind == 1) by.run(over, AllGather{type, counts, offsets}, own, values.data());
      if (kind == 2) by.run(over, ReduceScatter{type, counts}, from.data(), values.data());
      if (kind == 3) {
        // The matrix of counts is the same both ways.
        std::vector<std::int64_t> each(parts, counts.back()), at(parts);
        for (std::size_t part = 0; part < parts; ++part)
          at[part] = counts.back() * static_cast<std::int64_t>(part);
        from.resize(static_cast<std::size_t>(counts.back()) * parts);
        values.resize(from.size());
        by.run(over, AllToAll{type, each, at, each, at}, from.data(), values.data());
      }
      if (kind >= 4) by.run(over, AllReduce{type, Reduction::sum, count}, values.data());
    };
    run(*reference, theirs);
    if (kind == 4) {  // started, and waited for later
      results.push_back(mine);
      expected.push_back(theirs);
      pending.push_back(transport->start(over, AllReduce{ElementType::int32, Reduction::sum, count},
                                         results.back().data()));
    } else if (kind == 5) {  // in shared memory, of every second rank
      if (world.rank() % 2 == 0) {
        std::memcpy(memory.data(), mine.data(), mine.size() * 4);
        transport->run(over, AllReduce{ElementType::int32, Reduction::sum, count}, memory.data());
        std::memcpy(mine.data(), memory.data(), mine.size() * 4);
      } else {
        run(*transport, mine);
      }
      wrong += mine == theirs ? 0 : 1;
    } else {
      run(*transport, mine);
      wrong += mine == theirs ? 0 : 1;
    }
    if (choose(6) == 0) {
      if (world.rank() % 2 == 0) std::ranges::reverse(pending);  // in any order
      for (Pending& one : pending) one.wait();
      pending.clear();
    }
  }
  for (Pending& one : pending) one.wait();
  CHECK(wrong == 0);
  CHECK(results == expected);
}

TEST_CASE("what is compiled allocates nothing once it has run") {
  const Communicator world = Communicator::world();
  const auto transport = shared_transport();
  constexpr std::int64_t count = 3000;
  const TransportMemory memory = transport->allocate(world, count * 4);
  std::vector<float> own(count * static_cast<std::size_t>(world.size()));
  std::vector<float> receive(own.size());
  std::vector<std::int64_t> counts(static_cast<std::size_t>(world.size()), count);
  std::vector<std::int64_t> offsets(counts.size());
  for (std::size_t rank = 0; rank < offsets.size(); ++rank) {
    offsets[rank] = static_cast<std::int64_t>(rank) * count;
  }
  constexpr ElementType type = ElementType::float32;
  const AllReduce whole{type, Reduction::sum, count};
  const Compiled in_window = transport->compile(world, whole);
  const std::shared_ptr<CompiledCollective> first = transport->compile(world, whole, Use::started);
  const std::shared_ptr<CompiledCollective> second =
      transport->compile(world, AllReduce{type, Reduction::sum, 7}, Use::started);
  std::vector<Compiled> others;
  others.push_back(transport->compile(world, ReduceScatter{type, counts}));
  others.push_back(transport->compile(world, AllGather{type, counts, offsets}));
  others.push_back(transport->compile(world, AllToAll{type, counts, offsets, counts, offsets}));
  others.push_back(transport->compile(world, Broadcast{type, count, 0}));
  long before = 0;
  for (int step = 0; step < 5; ++step) {
    if (step == 2) before = test::allocations;
    in_window->run(nullptr, memory.data());
    Pending one(first, nullptr, own.data());
    Pending two(second, nullptr, receive.data());
    two.wait();
    one.wait();
    for (const Compiled& other : others) other->run(own.data(), receive.data());
  }
  CHECK(test::allocations - before == 0);
}

TEST_CASE("what an all-to-all posts has its pages before it runs") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  const auto transport = shared_transport(Room::usual);
  // Rank 0 posts a part for each other rank, together 14 pages, and receives nothing.
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::int64_t part = (14 << 10) / (world.size() - 1);
  std::vector<std::int64_t> to_others(ranks, part), from_first(ranks), none(ranks), offsets(ranks);
  to_others[0] = 0;
  from_first[0] = part;
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    offsets[rank] = (static_cast<std::int64_t>(rank) - 1) * part;
  }
  const bool first = world.rank() == 0;
  const std::vector<float> sent(14 << 10, 1.0f);
  std::vector<float> received(static_cast<std::size_t>(part));
  const Compiled compiled =
      transport->compile(world, AllToAll{ElementType::float32, first ? to_others : none,
                                         first ? offsets : none, first ? none : from_first, none});
  const auto faults = [] {
    rusage used{};
    REQUIRE(::getrusage(RUSAGE_SELF, &used) == 0);
    return used.ru_minflt;
  };
  const long before = faults();
  for (int call = 0; call < 8; ++call) compiled->run(sent.data(), received.data());
  // Without them there would be 14 a call.
  if (first) CHECK(faults() - before < 50);
  CHECK((first || received == std::vector<float>(received.size(), 1.0f)));
  wait_for_all(world);
}

TEST_CASE("ranks of several nodes are refused by shared memory alone and served with MPI") {
  const Communicator world = Communicator::world();
  if (world.size() < 3) return;
  const auto alone = make_shared_transport(Communicator::world(), {.ranks_a_node = 2});
  float one = 1;
  CHECK_THROWS_WITH(alone->run(world, AllReduce{ElementType::float32, Reduction::sum, 1}, &one),
                    Catch::Contains("is for ranks of one node") && Catch::Contains("\"auto\""));
  const auto both = make_hierarchical_transport(Communicator::world(), {.ranks_a_node = 2});
  both->run(world, AllReduce{ElementType::float32, Reduction::sum, 1}, &one);
  CHECK(one == world.size());
  const TransportMemory memory = both->allocate(world, 100);
  for (int rank = 0; rank < world.size(); ++rank) {
    CHECK(std::ssize(memory.of(rank)) == (rank / 2 == world.rank() / 2 ? 100 : 0));
  }
}

TEST_CASE("ranks in different collectives are told so") {
  const Communicator world = Communicator::world();
  if (world.size() != 2) return;
  const auto transport = make_transport("shared");
  std::vector<float> values(10, 1);
  CHECK_THROWS_WITH(
      transport->run(world, AllReduce{ElementType::float32, Reduction::sum, 4 + world.rank()},
                     values.data()),
      Catch::Contains("not in the same collective") && Catch::Contains("all_reduce float32 x 4") &&
          Catch::Contains("all_reduce float32 x 5"));
}

namespace {

/// Of our own files in /dev/shm.
std::set<std::string> names_in_shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    std::string name = entry.path().filename();
    if (name.starts_with("meshwork-")) names.insert(std::move(name));
  }
  return names;
}

// What sharing of 48 MiB says where there are addresses for 16.
std::string failure_without_addresses(const Communicator& world) {
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  struct rlimit limit = before;
  std::int64_t pages = 0;  // of addresses that the process has
  std::ifstream("/proc/self/statm") >> pages;
  limit.rlim_cur = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + (std::int64_t{16} << 20));
  REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
  std::string message;
  try {
    const SharedMemory memory(world, std::int64_t{48} << 20);
  } catch (const Error& error) {
    message = error.what();
  }
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  return message;
}

}  // namespace

TEST_CASE("memory that cannot be shared is said with both ways that were tried") {
  const std::set<std::string> names = names_in_shared_memory();
  CHECK_THAT(failure_without_addresses(Communicator::world()),
             Catch::Contains("in a file without a name: ") && Catch::Contains("mmap: ") &&
                 Catch::Contains("; nor in /dev/shm: "));
  // Tests beside this one may have names there for a moment.
  const auto left = [&] {
    for (const std::string& name : names_in_shared_memory()) {
      if (!names.contains(name)) return true;
    }
    return false;
  };
  for (int i = 0; i < 100 && left(); ++i) ::usleep(50'000);
  CHECK(!left());
}

TEST_CASE("shared memory takes none while it has a name") {
  const int changes = ::inotify_init1(IN_NONBLOCK);
  REQUIRE(changes >= 0);
  REQUIRE(::inotify_add_watch(changes, "/dev/shm", IN_CREATE | IN_DELETE | IN_MODIFY) >= 0);
  const Communicator world = Communicator::world();
  wait_for_all(world);
  REQUIRE(!failure_without_addresses(world).empty());
  wait_for_all(world);
  std::set<std::string> names;
  int removed = 0;
  alignas(inotify_event) std::array<char, 1 << 16> events{};
  for (ssize_t length = 0; (length = ::read(changes, events.data(), events.size())) > 0;) {
    for (ssize_t at = 0; at < length;) {
      const auto* event = reinterpret_cast<const inotify_event*>(events.data() + at);
      const std::string name = event->len > 0 ? event->name : "";
      if (name.starts_with("meshwork-")) {
        INFO(name);
        if ((event->mask & IN_CREATE) != 0) names.insert(name);
        if ((event->mask & IN_MODIFY) != 0) CHECK(!names.contains(name));
        if ((event->mask & IN_DELETE) != 0) removed += static_cast<int>(names.erase(name));
      }
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  ::close(changes);
  CHECK(removed > 0);
}

}  // namespace meshwork::shared_test
