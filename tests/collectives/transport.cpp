// Every transport, with its limits small and large, passes these tests.
#include "collectives/transport.h"

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "collectives/hierarchical_transport.h"
#include "collectives/mpi_transport.h"
#include "collectives/nccl/nccl_transport.h"
#include "collectives/shared_transport.h"
#include "collectives/staged_transport.h"
#include "tests/support/apart_queues.h"
#include "tests/support/catch.h"
#include "tests/support/through_device.h"

namespace meshwork::transport_test {

namespace {

struct Subject {
  std::string name;
  std::unique_ptr<Transport> transport;
};

/// Buffers in the memory of a device that the NCCL transport serves, through an NCCL that is none.
Subject by_nccl() {
  auto device = std::make_unique<test::ApartQueues>(true, true);
  std::unique_ptr<Transport> made = nccl::make_nccl_transport(
      Communicator::world(), make_staged_transport(make_transport("mpi"), *device), *device);
  return {"nccl", std::make_unique<test::ThroughDevice>(std::move(device), std::move(made))};
}

/// Every buffer that a test hands to it lies in the memory of a device.
Subject on_device(const std::string& name, std::unique_ptr<Transport> inner,
                  const StagedTransportOptions& options) {
  auto device = std::make_unique<test::ApartQueues>(!options.inner_reaches_device);
  std::unique_ptr<Transport> staged = make_staged_transport(std::move(inner), *device, options);
  return {name, std::make_unique<test::ThroughDevice>(std::move(device), std::move(staged))};
}

/// The transports under test. The second cannot hand more than 40 bytes to one MPI call, so that
/// all but the smallest blocks take the way of those beyond 2^31 bytes; the fourth has so little
/// room that all but the smallest go in many rounds, and so does the fifth, on several nodes, where
/// a thread brings on what goes between them. The buffers of the next four are a device's: staged
/// through one piece, through many small ones over shared memory, reached by MPI itself, and by
/// NCCL. To the one behind them each rank is a node, to the last, two are; of what they start, a
/// thread brings on that of the one, polls that of the other.
Subject made_subject() {
  const SharedGroupOptions little_room{.small_bytes = 64,
                                       .blocks_bytes = 128,
                                       .slot_bytes = 256,  // not enough for 8 ranks
                                       .slots = 2,
                                       .calls = 2,
                                       .chunk_bytes = 64,
                                       .chunks = 2};
  const Communicator world = Communicator::world();
  switch (GENERATE(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)) {
    case 0:
      return {"mpi", make_transport("mpi")};
    case 1:
      return {"mpi in pieces", make_mpi_transport({.largest_bytes = 40})};
    case 2:
      return {"shared", make_transport("shared")};
    case 3:
      return {"shared in pieces", make_shared_transport(world, {.group = little_room})};
    case 4:
      return {"hierarchical in pieces",
              make_hierarchical_transport(
                  world, {.group = little_room, .ranks_a_node = world.size() > 4 ? 4 : 2},
                  Progress::thread)};
    case 5:
      return on_device("staged", make_transport("mpi"), {});
    case 6:
      return on_device("staged in pieces", make_transport("shared"), {.piece_bytes = 40});
    case 7:
      return on_device("ordered", make_transport("mpi"), {.inner_reaches_device = true});
    case 8:
      return by_nccl();
    case 9:
      return {"mpi by a thread",
              make_mpi_transport({.largest_bytes = 4096,
                                  .nodes = std::make_shared<const Nodes>(world, 1),
                                  .progress = Progress::thread})};
    default:
      return {"hierarchical by polls",
              make_hierarchical_transport(world, {.ranks_a_node = 2}, Progress::polls)};
  }
}

/// One of them, ready for the ranks of `world`.
Subject subject(const Communicator& world) {
  Subject made = made_subject();
  made.transport->prepare(world);
  return made;
}

template <class T>
constexpr ElementType type_of();
template <>
constexpr ElementType type_of<std::uint8_t>() {
  return ElementType::uint8;
}
template <>
constexpr ElementType type_of<std::int32_t>() {
  return ElementType::int32;
}
template <>
constexpr ElementType type_of<std::int64_t>() {
  return ElementType::int64;
}
template <>
constexpr ElementType type_of<float>() {
  return ElementType::float32;
}
template <>
constexpr ElementType type_of<double>() {
  return ElementType::float64;
}

constexpr int dirt = 77;

/// `count` elements, dirty, between guards that have to stay as they are.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::int64_t count, std::function<T(std::int64_t)> value = {})
      : count_(count), memory_(static_cast<std::size_t>(count + 2 * guard), T{dirt}) {
    std::fill_n(memory_.begin(), guard, T{99});
    std::fill_n(memory_.end() - guard, guard, T{98});
    if (!value) return;
    for (std::int64_t i = 0; i < count; ++i) (*this)[i] = value(i);
  }
  /// Null if there are no elements: an empty block has no memory.
  T* data() { return count_ == 0 ? nullptr : memory_.data() + guard; }
  T& operator[](std::int64_t i) { return memory_[static_cast<std::size_t>(guard + i)]; }
  [[nodiscard]] std::int64_t count() const { return count_; }

  /// The number of elements that are not as `expected` says, and of changed guards.
  std::int64_t wrong(const std::function<T(std::int64_t)>& expected) {
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count_; ++i) wrong += (*this)[i] == expected(i) ? 0 : 1;
    for (std::int64_t i = 0; i < guard; ++i) {
      wrong += memory_[static_cast<std::size_t>(i)] == T{99} ? 0 : 1;
      wrong += memory_[memory_.size() - 1 - static_cast<std::size_t>(i)] == T{98} ? 0 : 1;
    }
    return wrong;
  }

 private:
  static constexpr std::int64_t guard = 8;
  std::int64_t count_;
  std::vector<T> memory_;
};

/// What rank `rank` has at element i: small, so that the sum over 8 ranks fits every type exactly.
template <class T>
T value(int rank, std::int64_t i) {
  return static_cast<T>((i * 3 + rank * 5 + i / 7) % 23);
}

template <class T>
T reduced(Reduction reduction, int ranks, std::int64_t i) {
  T result = value<T>(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const T other = value<T>(rank, i);
    if (reduction == Reduction::sum) result = static_cast<T>(result + other);
    if (reduction == Reduction::maximum) result = std::max(result, other);
    if (reduction == Reduction::minimum) result = std::min(result, other);
  }
  return result;
}

/// Numbers of elements a rank, as uneven as they come.
std::vector<std::vector<std::int64_t>> uneven_counts(int ranks) {
  std::vector<std::vector<std::int64_t>> all(7, std::vector<std::int64_t>(ranks, 0));
  for (int rank = 0; rank < ranks; ++rank) {
    all[0][rank] = 3;
    all[1][rank] = rank + 1;
    all[2][rank] = rank % 2 == 0 ? 0 : 5;
    all[3][rank] = rank == ranks - 1 ? 7 : 0;
    all[4][rank] = 13 * (rank + 1) / ranks - 13 * rank / ranks;
  }
  all[5][0] = 1001;
  return all;  // the last is nothing at all
}

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

TEMPLATE_TEST_CASE("an all-reduce gives every rank the reduction", "", std::uint8_t, std::int32_t,
                   std::int64_t, float, double) {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  const Reduction reduction = GENERATE(Reduction::sum, Reduction::maximum, Reduction::minimum);
  const bool started = GENERATE(false, true);
  INFO(tested.name << (started ? ", started" : ""));
  for (const std::int64_t count : {0, 1, 2, 5, 31, 1024, 3001}) {
    INFO(count << " elements");
    Guarded<TestType> buffer(count, [&](auto i) { return value<TestType>(world.rank(), i); });
    if (started) {
      Pending pending = tested.transport->start(
          world, AllReduce{type_of<TestType>(), reduction, count}, buffer.data());
      CHECK(pending.active());
      pending.wait();
      CHECK_FALSE(pending.active());
    } else {
      tested.transport->run(world, AllReduce{type_of<TestType>(), reduction, count}, buffer.data());
    }
    CHECK(buffer.wrong([&](auto i) { return reduced<TestType>(reduction, world.size(), i); }) == 0);
  }
}

TEST_CASE("a sum has the same bits on all ranks and in every call") {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  const bool started = GENERATE(false, true);
  INFO(tested.name << (started ? ", started" : ""));
  for (const std::int64_t count : {1, 7, 300, 5003, 70001}) {
    if (tested.name.ends_with("in pieces") && count > 5003) continue;
    INFO(count << " elements");
    // Terms of either sign and of many magnitudes: every order of adding rounds differently.
    const auto term = [](int rank, std::int64_t i) {
      constexpr double magnitudes[] = {1, 10, 100, 1000, 10'000};
      return static_cast<float>(std::sin(1.0 + 12.9898 * static_cast<double>(i) + 78.233 * rank) *
                                magnitudes[(i + 3 * rank) % 5]);
    };
    std::vector<float> first(static_cast<std::size_t>(count));
    std::vector<float> second(first.size());
    for (std::vector<float>* sums : {&first, &second}) {
      for (std::int64_t i = 0; i < count; ++i) (*sums)[i] = term(world.rank(), i);
      if (started) {
        tested.transport
            ->start(world, AllReduce{ElementType::float32, Reduction::sum, count}, sums->data())
            .wait();
      } else {
        tested.transport->run(world, AllReduce{ElementType::float32, Reduction::sum, count},
                              sums->data());
      }
    }
    const std::size_t bytes = first.size() * sizeof(float);
    CHECK(std::memcmp(first.data(), second.data(), bytes) == 0);
    std::vector<float> of_rank_0 = first;
    check_mpi(MPI_Bcast(of_rank_0.data(), static_cast<int>(count), MPI_FLOAT, 0, world.native()),
              "MPI_Bcast");
    CHECK(std::memcmp(first.data(), of_rank_0.data(), bytes) == 0);

    double worst = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      double exact = 0;
      double magnitude = 0;
      for (int rank = 0; rank < world.size(); ++rank) {
        const double one = term(rank, i);
        exact += one;
        magnitude += std::abs(one);
      }
      worst = std::max(worst, std::abs(static_cast<double>(first[i]) - exact) / magnitude);
    }
    // n - 1 additions, each rounded to half a unit in the last place of at most `magnitude`.
    CHECK(worst <= world.size() * 0.5 * std::numeric_limits<float>::epsilon());
  }
}

TEST_CASE("a NaN is the maximum and the minimum, whichever rank has it") {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  const std::int64_t count = GENERATE(1, 700);
  INFO(tested.name);
  for (int rank = 0; rank < world.size(); ++rank) {
    for (const Reduction reduction : {Reduction::maximum, Reduction::minimum}) {
      std::vector<float> values(static_cast<std::size_t>(count),
                                static_cast<float>(world.rank() - 1));
      if (world.rank() == rank) values.back() = std::numeric_limits<float>::quiet_NaN();
      tested.transport->run(world, AllReduce{ElementType::float32, reduction, count},
                            values.data());
      CHECK(std::isnan(values.back()));
      const float expected =
          static_cast<float>(reduction == Reduction::maximum ? world.size() - 2 : -1);
      CHECK((count == 1 || values.front() == expected));
    }
  }
}

TEST_CASE("started all-reduces may be waited for in any order") {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  INFO(tested.name);
  constexpr std::int64_t counts[] = {1, 2000, 0, 17, 300};
  std::vector<Guarded<float>> buffers;
  std::vector<Pending> pending;
  for (const std::int64_t count : counts) {
    buffers.emplace_back(count, [&](auto i) { return value<float>(world.rank(), i); });
    pending.push_back(tested.transport->start(
        world, AllReduce{ElementType::float32, Reduction::sum, count}, buffers.back().data()));
  }
  // A blocking operation and one that is started and waited for come between.
  std::int32_t one = 1;
  tested.transport->run(world, AllReduce{ElementType::int32, Reduction::sum, 1}, &one);
  CHECK(one == world.size());
  if (world.rank() % 2 == 0) {
    for (Pending& operation : pending) operation.wait();
  } else {
    for (std::size_t i = pending.size(); i > 0; --i) pending[i - 1].wait();
  }
  for (Guarded<float>& buffer : buffers) {
    CHECK(buffer.wrong([&](auto i) { return reduced<float>(Reduction::sum, world.size(), i); }) ==
          0);
  }
}

TEST_CASE("of a reduction in parts every rank has its own, whatever it then makes of it") {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  const bool in_window = GENERATE(false, true);
  INFO(tested.name << (in_window ? ", in the transport's memory" : ""));
  constexpr std::int64_t most = 3001;
  const TransportMemory window = tested.transport->allocate(world, 4 * most);
  std::vector<float> own(static_cast<std::size_t>(most));
  float* const buffer = in_window ? reinterpret_cast<float*>(window.data()) : own.data();
  for (const std::int64_t count : {0, 1, 15, 16, 500, 1024, 3001, 3001}) {
    INFO(count << " elements");
    for (std::int64_t i = 0; i < count; ++i) buffer[i] = value<float>(world.rank(), i);
    Pending pending = tested.transport->start(
        world, AllReduce{ElementType::float32, Reduction::sum, count, true}, buffer);
    pending.wait();
    const auto [part, parts] = tested.transport->sharers(world);
    const auto begin = part_begin(count, part, parts, ElementType::float32);
    const auto end = part_begin(count, part + 1, parts, ElementType::float32);
    std::int64_t wrong = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      wrong += buffer[i] == reduced<float>(Reduction::sum, world.size(), i) ? 0 : 1;
      buffer[i] = -1;  // nobody wants it any more
    }
    CHECK(wrong == 0);
    tested.transport->barrier_of_sharers(world);
  }
}

TEST_CASE("parts are consecutive, begin at whole cache lines and are nearly equal") {
  for (const std::int64_t count : {0, 1, 100, 4096, 100'003}) {
    for (const int parts : {1, 2, 3, 8}) {
      INFO(count << " elements in " << parts << " parts");
      CHECK(part_begin(count, 0, parts, ElementType::float32) == 0);
      CHECK(part_begin(count, parts, parts, ElementType::float32) == count);
      for (int part = 0; part < parts; ++part) {
        const std::int64_t begin = part_begin(count, part, parts, ElementType::float32);
        const std::int64_t end = part_begin(count, part + 1, parts, ElementType::float32);
        CHECK(begin <= end);
        CHECK(begin * 4 % 64 == 0);
        CHECK(std::abs(end - begin - count / parts) < 16 + parts);
      }
    }
  }
}

TEST_CASE("behind a barrier stands what ranks wrote before to memory that they share") {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  INFO(tested.name);
  const TransportMemory memory = tested.transport->allocate(world, 8);
  const Sharers sharers = tested.transport->sharers(world);
  int seen = 0;
  for (std::int64_t round = 1; round <= 50; ++round) {
    *reinterpret_cast<std::int64_t*>(memory.data()) = round;
    tested.transport->barrier_of_sharers(world);
    for (int rank = 0; rank < world.size(); ++rank) {
      const std::span<std::byte> theirs = memory.of(rank);
      seen += theirs.empty() ? 0 : 1;
      if (sharers.count > 1 && !theirs.empty()) {
        CHECK(*reinterpret_cast<const std::int64_t*>(theirs.data()) == round);
      }
    }
    tested.transport->barrier_of_sharers(world);
  }
  CHECK((sharers.count == 1 || seen == 50 * sharers.count));
  CHECK((sharers.count == 1 || tested.transport->shares_memory()));
}

TEST_CASE("a pending operation moves, and waiting twice is waiting once") {
  const std::unique_ptr<Transport> transport = make_transport("auto");
  const Communicator world = Communicator::world();
  double one = 1;
  Pending empty;
  CHECK_FALSE(empty.active());
  empty.wait();
  Pending first = transport->start(world, AllReduce{ElementType::float64, Reduction::sum, 1}, &one);
  Pending second = std::move(first);
  CHECK(second.active());
  CHECK_FALSE(first.active());  // NOLINT: that is the claim
  empty = std::move(second);
  empty.wait();
  empty.wait();
  CHECK(one == world.size());
}

TEMPLATE_TEST_CASE("a reduce-scatter gives each rank the sum of its block", "", std::uint8_t,
                   std::int32_t, std::int64_t, float, double) {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  INFO(tested.name);
  for (const std::vector<std::int64_t>& counts : uneven_counts(world.size())) {
    INFO("counts " << Catch::StringMaker<std::vector<std::int64_t>>::convert(counts));
    const std::int64_t before =
        std::accumulate(counts.begin(), counts.begin() + world.rank(), std::int64_t{0});
    Guarded<TestType> send(sum(counts), [&](auto i) { return value<TestType>(world.rank(), i); });
    Guarded<TestType> receive(counts[world.rank()]);
    tested.transport->run(world, ReduceScatter{type_of<TestType>(), counts}, send.data(),
                          receive.data());
    CHECK(receive.wrong([&](auto i) {
      return reduced<TestType>(Reduction::sum, world.size(), before + i);
    }) == 0);
    CHECK(send.wrong([&](auto i) { return value<TestType>(world.rank(), i); }) == 0);
  }
}

TEMPLATE_TEST_CASE("an all-gather puts every block in its place and nothing between", "",
                   std::uint8_t, std::int32_t, std::int64_t, float, double) {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  const bool started = GENERATE(false, true);
  INFO(tested.name << (started ? ", started" : ""));
  for (const std::vector<std::int64_t>& counts : uneven_counts(world.size())) {
    const bool in_place = GENERATE(false, true);
    INFO("counts " << Catch::StringMaker<std::vector<std::int64_t>>::convert(counts));
    // The last rank's block comes first, and two elements of nobody lie after each.
    std::vector<std::int64_t> offsets(counts.size());
    std::int64_t end = 0;
    for (int rank = world.size() - 1; rank >= 0; --rank) {
      offsets[rank] = end;
      end += counts[rank] + 2;
    }
    Guarded<TestType> receive(end);
    Guarded<TestType> send(counts[world.rank()],
                           [&](auto i) { return value<TestType>(world.rank(), i); });
    const TestType* from = send.data();
    if (in_place) {
      for (std::int64_t i = 0; i < send.count(); ++i) {
        receive[offsets[world.rank()] + i] = send[i];
      }
      from = receive.data() + offsets[world.rank()];
    }
    const AllGather gather{type_of<TestType>(), counts, offsets};
    if (started) {
      Pending pending(tested.transport->compile(world, gather, Use::started), from, receive.data());
      // A sum comes between.
      std::int32_t one = 1;
      tested.transport->run(world, AllReduce{ElementType::int32, Reduction::sum, 1}, &one);
      CHECK(one == world.size());
      tested.transport->advance();
      pending.wait();
    } else {
      tested.transport->run(world, gather, from, receive.data());
    }
    CHECK(receive.wrong([&](auto i) {
      for (int rank = 0; rank < world.size(); ++rank) {
        if (i >= offsets[rank] && i < offsets[rank] + counts[rank]) {
          return value<TestType>(rank, i - offsets[rank]);
        }
      }
      return TestType{dirt};
    }) == 0);
  }
}

TEMPLATE_TEST_CASE("an all-to-all brings every block to its rank and place", "", std::uint8_t,
                   std::int32_t, std::int64_t, float, double) {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  INFO(tested.name);
  const int ranks = world.size();
  const int here = world.rank();
  for (int pattern = 0; pattern < 5; ++pattern) {
    INFO("pattern " << pattern);
    const auto count = [&](int from, int to) -> std::int64_t {
      switch (pattern) {
        case 0:
          return 2;
        case 1:
          return (from * 3 + to * 5) % 4;
        case 2:  // a ring
          return to == (from + 1) % ranks ? 301 : 0;
        case 3:  // the first rank has all, the last gets most
          return from == 0 ? 50 * to : 0;
        default:
          return 0;
      }
    };
    // Blocks lie in reverse order of the ranks when sent and in order when received, with a gap.
    std::vector<std::int64_t> send_counts(ranks), send_offsets(ranks);
    std::vector<std::int64_t> receive_counts(ranks), receive_offsets(ranks);
    std::int64_t send_end = 0;
    std::int64_t receive_end = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const int reverse = ranks - 1 - rank;
      send_counts[reverse] = count(here, reverse);
      send_offsets[reverse] = send_end;
      send_end += send_counts[reverse];
      receive_counts[rank] = count(rank, here);
      receive_offsets[rank] = receive_end + 1;
      receive_end += receive_counts[rank] + 1;
    }
    const auto sent = [](int from, int to, std::int64_t i) {
      return static_cast<TestType>((from * 31 + to * 7 + i) % 67);
    };
    Guarded<TestType> send(send_end);
    for (int to = 0; to < ranks; ++to) {
      for (std::int64_t i = 0; i < send_counts[to]; ++i) {
        send[send_offsets[to] + i] = sent(here, to, i);
      }
    }
    Guarded<TestType> receive(receive_end);
    // Twice, at once: a message of the second call must not be taken for one of the first.
    for (int call = 0; call < 2; ++call) {
      tested.transport->run(
          world,
          AllToAll{type_of<TestType>(), send_counts, send_offsets, receive_counts, receive_offsets},
          send.data(), receive.data());
    }
    CHECK(receive.wrong([&](auto i) {
      for (int from = 0; from < ranks; ++from) {
        if (i >= receive_offsets[from] && i < receive_offsets[from] + receive_counts[from]) {
          return sent(from, here, i - receive_offsets[from]);
        }
      }
      return TestType{dirt};
    }) == 0);
  }
}

TEMPLATE_TEST_CASE("an exchange brings each block to the few ranks that want it", "", std::uint8_t,
                   std::int32_t, std::int64_t, float, double) {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  INFO(tested.name);
  const int ranks = world.size();
  const int here = world.rank();
  for (int pattern = 0; pattern < 6; ++pattern) {
    INFO("pattern " << pattern);
    const auto count = [&](int from, int to) -> std::int64_t {
      switch (pattern) {
        case 0:  // a chain, both ways, uneven
          return to == from + 1 ? 5 : to == from - 1 ? 301 : 0;
        case 1:  // a ring, one way
          return to == (from + 1) % ranks ? 17 : 0;
        case 2:  // over two neighbours
          return std::abs(from - to) <= 2 ? 1 + from : 0;
        case 3:  // the first rank alone gives
          return from == 0 ? 40 + to : 0;
        case 4:  // two ranks; the others stay away
          return from < 2 && to < 2 ? 9 : 0;
        default:
          return 0;
      }
    };
    const auto sent = [](int from, int to, std::int64_t i) {
      return static_cast<TestType>((from * 31 + to * 7 + i) % 67);
    };
    // What is sent lies with a gap and the last peer first; two peers may get the same elements.
    std::vector<NeighbourBlock> sends, receives;
    std::int64_t send_end = 0;
    std::int64_t receive_end = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const int reverse = ranks - 1 - rank;
      if (reverse != here && count(here, reverse) > 0) {
        sends.push_back({reverse, count(here, reverse), send_end});
        send_end += count(here, reverse) + 3;
      }
      if (rank != here && count(rank, here) > 0) {
        receives.push_back({rank, count(rank, here), receive_end + 1});
        receive_end += count(rank, here) + 1;
      }
    }
    Guarded<TestType> send(send_end);
    for (const NeighbourBlock& block : sends) {
      for (std::int64_t i = 0; i < block.count; ++i) {
        send[block.offset + i] = sent(here, block.rank, i);
      }
    }
    Guarded<TestType> receive(receive_end);
    // Twice, at once: a message of the second call must not be taken for one of the first.
    for (int call = 0; call < 2; ++call) {
      if (pattern == 4 && here >= 2) continue;
      tested.transport->run(world, Exchange{type_of<TestType>(), sends, receives}, send.data(),
                            receive.data());
    }
    CHECK(receive.wrong([&](auto i) {
      for (const NeighbourBlock& block : receives) {
        if (i >= block.offset && i < block.offset + block.count) {
          return sent(block.rank, here, i - block.offset);
        }
      }
      return TestType{dirt};
    }) == 0);
  }
}

TEST_CASE("exchanges that were started pass each other, those of a channel in their order") {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  INFO(tested.name);
  if (world.size() < 2 || world.rank() > 1) return;
  const int other = 1 - world.rank();
  // MPI looks through all pieces under way at each look: thousands of pieces would take seconds.
  const std::int64_t many = tested.name == "mpi in pieces" ? 5000 : 100'000;
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{33}, many}) {
    const auto compiled = [&](int channel, bool sends) {
      const std::vector<NeighbourBlock> block{{other, count, 0}};
      const std::vector<NeighbourBlock> nothing;
      return std::shared_ptr<CompiledCollective>(tested.transport->compile(
          world,
          Exchange{ElementType::float32, sends ? block : nothing, sends ? nothing : block, channel},
          Use::started));
    };
    // Rank 0 sends on channels 4, 5, 5; rank 1 receives on 5, 5, 4, and has sent on 4 before.
    std::vector<std::vector<float>> memory(4, std::vector<float>(static_cast<std::size_t>(count)));
    std::vector<Pending> pending;
    const auto send = [&](int channel, float number) {
      std::vector<float>& values = memory[pending.size()];
      std::ranges::fill(values, number);
      pending.emplace_back(compiled(channel, true), values.data(), nullptr);
    };
    const auto receive = [&](int channel) {
      std::vector<float>& values = memory[pending.size()];
      pending.emplace_back(compiled(channel, false), nullptr, values.data());
    };
    const auto got = [&](std::size_t index, float number) {
      pending[index].wait();
      CHECK(std::ranges::count(memory[index], number) == count);
    };
    if (world.rank() == 0) {
      send(4, 1);
      send(5, 2);
      send(5, 3);
      receive(4);
      got(3, 7);
    } else {
      send(4, 7);
      receive(5);
      receive(5);
      receive(4);
      got(3, 1);
      got(2, 3);
      got(1, 2);
    }
    for (Pending& one : pending) one.wait();
  }
}

TEST_CASE("an exchange with oneself or with a rank that is not there is refused") {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  float value = 1;
  for (const int rank : {world.rank(), -1, world.size()}) {
    const std::vector<NeighbourBlock> blocks{{rank, 1, 0}};
    CHECK_THROWS_WITH(
        tested.transport->run(world, Exchange{ElementType::float32, blocks, {}}, &value, nullptr),
        Catch::Contains("exchanges with rank " + std::to_string(rank)));
  }
}

TEMPLATE_TEST_CASE("a broadcast gives every rank the root's buffer", "", std::uint8_t, std::int32_t,
                   std::int64_t, float, double) {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  INFO(tested.name);
  for (const int root : {0, world.size() - 1}) {
    for (const std::int64_t count : {0, 1, 33, 2500}) {
      Guarded<TestType> buffer(count);
      for (std::int64_t i = 0; i < count && world.rank() == root; ++i) {
        buffer[i] = value<TestType>(root + 3, i);
      }
      tested.transport->run(world, Broadcast{type_of<TestType>(), count, root}, buffer.data());
      CHECK(buffer.wrong([&](auto i) { return value<TestType>(root + 3, i); }) == 0);
    }
  }
}

TEST_CASE("operations over one axis leave the other ranks alone") {
  const Communicator world = Communicator::world();
  const Subject tested = subject(world);
  INFO(tested.name);
  const Communicator row = world.split(world.rank() / 2, world.rank());
  const Communicator column = world.split(world.rank() % 2, world.rank());
  std::vector<std::int64_t> rows(20, world.rank());
  std::vector<std::int64_t> columns(20, world.rank());
  // Both are under way at once.
  Pending of_rows =
      tested.transport->start(row, AllReduce{ElementType::int64, Reduction::sum, 20}, rows.data());
  Pending of_columns = tested.transport->start(
      column, AllReduce{ElementType::int64, Reduction::sum, 20}, columns.data());
  of_columns.wait();
  of_rows.wait();
  std::int64_t row_sum = 0;
  std::int64_t column_sum = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank / 2 == world.rank() / 2) row_sum += rank;
    if (rank % 2 == world.rank() % 2) column_sum += rank;
  }
  CHECK(rows == std::vector<std::int64_t>(20, row_sum));
  CHECK(columns == std::vector<std::int64_t>(20, column_sum));
}

TEST_CASE("more than 2^31 bytes arrive whole", "[.large]") {
  // By hand: it takes 2.3 GB a rank.
  const std::unique_ptr<Transport> transport = make_transport("mpi");
  const Communicator world = Communicator::world();
  const std::int64_t count = (std::int64_t{1} << 31) + 100'003;
  std::vector<std::uint8_t> buffer(static_cast<std::size_t>(count));
  const auto check_ends = [&](std::uint8_t expected) {
    for (const std::int64_t i : {std::int64_t{0}, count / 2, std::int64_t{INT32_MAX}, count - 1}) {
      CHECK(static_cast<int>(buffer[static_cast<std::size_t>(i)]) == expected);
    }
    CHECK(std::count(buffer.begin(), buffer.end(), expected) == count);
  };
  std::fill(buffer.begin(), buffer.end(), static_cast<std::uint8_t>(world.rank() + 1));
  transport->run(world, Broadcast{ElementType::uint8, count, world.size() - 1}, buffer.data());
  check_ends(static_cast<std::uint8_t>(world.size()));
  std::fill(buffer.begin(), buffer.end(), std::uint8_t{2});
  transport->run(world, AllReduce{ElementType::uint8, Reduction::sum, count}, buffer.data());
  check_ends(static_cast<std::uint8_t>(2 * world.size()));
  // Each rank's block, of 2^31 / n bytes and some, is filled in place.
  std::vector<std::int64_t> counts(world.size()), offsets(world.size());
  for (int rank = 0; rank < world.size(); ++rank) {
    offsets[rank] = count * rank / world.size();
    counts[rank] = count * (rank + 1) / world.size() - offsets[rank];
  }
  std::fill(buffer.begin(), buffer.end(), std::uint8_t{0});
  std::fill_n(buffer.begin() + offsets[world.rank()], counts[world.rank()], std::uint8_t{7});
  transport->run(world, AllGather{ElementType::uint8, counts, offsets},
                 buffer.data() + offsets[world.rank()], buffer.data());
  check_ends(7);
  std::vector<std::uint8_t> block(static_cast<std::size_t>(counts[world.rank()]), 0);
  transport->run(world, ReduceScatter{ElementType::uint8, counts}, buffer.data(), block.data());
  CHECK(std::count(block.begin(), block.end(), static_cast<std::uint8_t>(7 * world.size())) ==
        counts[world.rank()]);
}

TEST_CASE("a transport that does not exist is an error that names those that do") {
  // The ranks of a test are on one node.
  CHECK(make_transport("auto")->name() == (Communicator::world().size() > 1 ? "shared" : "mpi"));
  CHECK(make_transport("mpi")->name() == "mpi");
  CHECK(make_transport("shared")->name() == "shared");
  CHECK_THROWS_WITH(make_transport("mpj"),
                    Catch::Equals("there is no transport \"mpj\"; there are: auto, cuda_aware_mpi, "
                                  "hierarchical, mpi, nccl, shared"));
}

TEST_CASE("blocks that do not fit the communicator are an error") {
  const std::unique_ptr<Transport> transport = make_transport("mpi");
  const Communicator world = Communicator::world();
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(world.size() + 1), 0);
  CHECK_THROWS_WITH(
      transport->run(world, ReduceScatter{ElementType::float32, counts}, nullptr, nullptr),
      Catch::Contains("blocks were given to a collective of"));
}

}  // namespace meshwork::transport_test
