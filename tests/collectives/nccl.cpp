// The NCCL transport on an NCCL that is made of MPI: what is NCCL's and what is not, what comes
// behind which kernels, who waits for what, and what is said when NCCL fails. That it is a
// transport, transport.cpp tests.
#include "collectives/nccl/nccl_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/mpi_transport.h"
#include "collectives/staged_transport.h"
#include "tests/collectives/apart_subject.h"
#include "tests/support/catch.h"
#include "tests/support/nccl_on_host/control.h"

namespace meshwork::nccl_test {

using meshwork::test::ApartSubject;
using meshwork::test::nccl_on_host;

namespace {

constexpr std::int64_t count = ApartSubject::count;

struct Subject : ApartSubject {
  Subject() : ApartSubject(true, true) {
    transport = nccl::make_nccl_transport(
        world, make_staged_transport(make_mpi_transport(), device), device);
    transport->prepare(world);
  }
};

bool alone() {
  return Communicator::world().size() == 1;
}
float ranks() {
  return static_cast<float>(Communicator::world().size());
}

bool is_enqueued(Transport& transport, const Communicator& communicator, ElementType type,
                 Reduction reduction = Reduction::sum) {
  return transport.compile(communicator, AllReduce{type, reduction, count})->is_enqueued();
}

/// Operations that NCCL was given by `work`.
template <class Work>
std::int64_t operations_of(const Work& work) {
  const std::int64_t before = nccl_on_host().operations;
  work();
  return nccl_on_host().operations - before;
}

}  // namespace

TEST_CASE("operations come between the kernels, and the processor waits for nothing") {
  Subject subject;
  const std::int64_t before = subject.device.waits();
  const Memory memory = subject.floats();
  subject.fill(memory, 1);
  float expected = 1;
  const std::int64_t operations = operations_of([&] {
    for (int call = 0; call < 3; ++call) {
      subject.add(memory, 1);
      subject.sum(memory);
      subject.add(memory, 3);
      expected = (expected + 1) * ranks() + 3;
    }
  });
  CHECK(operations == (alone() ? 0 : 3));
  CHECK(subject.device.waits() == before);
  CHECK(subject.others_than(expected, memory) == 0);
}

TEST_CASE("kernels behind a started reduction go on, until it is waited for") {
  Subject subject;
  const Memory first = subject.floats();
  const Memory second = subject.floats();
  subject.fill(first, 2);
  Pending of_first = subject.start(first);
  subject.fill(second, 5);
  Pending of_second = subject.start(second);
  // A kernel that is started now reads what was there before.
  const Memory copy = subject.floats();
  subject.fill(copy, 7);
  if (!alone()) {
    CHECK(subject.others_than(7, copy) == 0);
    CHECK(subject.others_than(2, first) == 0);
  }
  const std::int64_t before = subject.device.waits();
  of_second.wait();
  of_first.wait();
  subject.add(first, 1);
  subject.add(second, 1);
  CHECK(subject.device.waits() == before);
  CHECK(subject.others_than(2 * ranks() + 1, first) == 0);
  CHECK(subject.others_than(5 * ranks() + 1, second) == 0);
}

TEST_CASE("the processor is so many operations ahead of the device and no more") {
  Subject subject;
  if (alone()) return;
  const Memory memory = subject.floats();
  subject.fill(memory, 1);
  float expected = 1;
  const std::int64_t before = subject.device.waits();
  for (std::size_t i = 0; i <= nccl::operations_ahead; ++i) {
    CHECK(subject.device.waits() == before);
    subject.sum(memory);
    expected *= ranks();
  }
  // It has waited for the first, which takes what the kernel in front of it wrote.
  CHECK(subject.device.waits() == before + 1);
  CHECK(subject.others_than(expected, memory) == 0);
}

TEST_CASE("what is captured is started again without NCCL, and keeps its order with the kernels") {
  Subject subject;
  if (alone()) return;
  CHECK(subject.transport->remark().empty());
  CHECK(is_enqueued(*subject.transport, subject.world, ElementType::float32));
  const Memory first = subject.floats();
  const Memory second = subject.floats();
  subject.fill(first, 1);
  subject.fill(second, 2);
  Enqueued& enqueued = *subject.transport->enqueued();
  const std::uint64_t before = enqueued.started(), captured_before = enqueued.captured();
  const auto step = [&] {
    Pending of_second = subject.start(second);
    subject.add(first, 1);
    subject.sum(first);
    of_second.wait();
    subject.add(second, 1);
  };
  std::unique_ptr<CapturedWork> captured;
  CHECK(operations_of([&] { captured = subject.device.capture(step); }) == 2);
  CHECK(enqueued.captured() == captured_before + 2);
  CHECK(enqueued.started() == before);
  const std::int64_t waits = subject.device.waits();
  float of_first = 1, of_second = 2;
  const std::int64_t again = operations_of([&] {
    for (int run = 0; run < 3; ++run) {
      captured->start();
      of_first = (of_first + 1) * ranks();
      of_second = of_second * ranks() + 1;
    }
  });
  CHECK(again == 0);
  CHECK(subject.device.waits() == waits);
  CHECK(subject.others_than(of_first, first) == 0);
  CHECK(subject.others_than(of_second, second) == 0);
  enqueued.add_captured(6);
  subject.device.finish();
  CHECK(enqueued.done() == enqueued.started());
  // What is not captured comes behind it.
  step();
  CHECK(subject.others_than((of_first + 1) * ranks(), first) == 0);
}

TEST_CASE("what cannot be captured on one rank is captured on none, and a remark says why") {
  const Communicator world = Communicator::world();
  if (alone()) return;
  if (world.rank() == world.size() - 1) {
    nccl_on_host().failing = "ncclAllReduce";
    nccl_on_host().before_failing = 1;  // the first is not captured
  }
  Subject subject;
  CHECK_THAT(subject.transport->remark(),
             Catch::Contains("collectives are started one by one") &&
                 Catch::Contains(fmt::format("rank {}: ncclAllReduce failed", world.size() - 1)));
  CHECK_FALSE(is_enqueued(*subject.transport, world, ElementType::float32));
  const Memory memory = subject.floats();
  subject.fill(memory, 1);
  subject.sum(memory);
  CHECK(subject.others_than(ranks(), memory) == 0);
  subject.device.finish();
  CHECK(subject.transport->enqueued()->done() == subject.transport->enqueued()->started());
}

TEST_CASE("operations that the host has a part in are not enqueued") {
  Subject subject;
  Transport& transport = *subject.transport;
  const bool several = !alone();
  CHECK(is_enqueued(transport, subject.world, ElementType::float64) == several);
  CHECK_FALSE(is_enqueued(transport, subject.world, ElementType::float32, Reduction::maximum));
  CHECK(is_enqueued(transport, subject.world, ElementType::int32, Reduction::maximum) == several);
  CHECK_FALSE(is_enqueued(transport, subject.world.duplicate(), ElementType::float32));
}

TEST_CASE("nothing is allocated for what was reserved") {
  Subject subject;
  const std::vector<std::int64_t> started{count * 4, 40};
  subject.transport->reserve(count * 4, started);
  const Memory first = subject.floats();
  const Memory second = subject.floats();
  const std::int64_t before = subject.device.pinned_allocations();
  for (int step = 0; step < 3; ++step) {
    for (const Memory* memory : {&first, &second}) subject.fill(*memory, 1);
    Pending of_first = subject.start(first);
    Pending of_second = subject.start(second);
    of_first.wait();
    of_second.wait();
    CHECK(subject.others_than(ranks(), second) == 0);
  }
  CHECK(subject.device.pinned_allocations() == before);
}

TEST_CASE("what NCCL does not do as we want it is staged") {
  Subject subject;
  if (alone()) return;
  const Memory memory = subject.floats();
  subject.fill(memory, 1);
  const auto operations = [&](auto reduce) { return operations_of(reduce); };
  for (const Reduction reduction : {Reduction::maximum, Reduction::minimum}) {
    CHECK(operations([&] {
            subject.transport->run(subject.world, AllReduce{ElementType::float32, reduction, count},
                                   memory.data());
          }) == 0);
    CHECK(operations([&] {
            subject.transport->run(subject.world, AllReduce{ElementType::int32, reduction, count},
                                   memory.data());
          }) == 1);
  }
  // The host's memory, and a communicator that was not prepared.
  std::vector<double> on_host(3, 1.0);
  CHECK(operations([&] {
          subject.transport->run(subject.world, AllReduce{ElementType::float64, Reduction::sum, 3},
                                 on_host.data());
          subject.transport->run(subject.world, Broadcast{ElementType::float64, 3, 0},
                                 on_host.data());
        }) == 0);
  CHECK(on_host == std::vector<double>(3, ranks()));
  const Communicator other = subject.world.duplicate();
  CHECK(operations([&] {
          subject.transport->run(other, AllReduce{ElementType::float32, Reduction::sum, count},
                                 memory.data());
        }) == 0);
  CHECK(subject.others_than(ranks(), memory) == 0);
}

TEST_CASE("blocks of one size are one call, others a group, and a group is one operation") {
  Subject subject;
  if (alone()) return;
  const auto size = static_cast<std::size_t>(subject.world.size());
  const Memory all = subject.device.allocate(64 * std::ssize(std::vector<int>(size)) * 4);
  const Memory own = subject.device.allocate(64 * 4);
  std::vector<std::int64_t> even(size, 8), uneven(size, 8), offsets(size);
  uneven[0] = 11;
  for (std::size_t rank = 0; rank < size; ++rank)
    offsets[rank] = static_cast<std::int64_t>(rank) * 16;
  const auto mine = static_cast<std::size_t>(subject.world.rank());
  for (const auto& counts : {even, uneven}) {
    CHECK(operations_of([&] {
            subject.transport->run(subject.world, ReduceScatter{ElementType::float32, counts},
                                   all.data(), own.data());
            subject.transport->run(subject.world, AllGather{ElementType::float32, counts, offsets},
                                   own.data(), all.data());
            subject.transport->run(
                subject.world,
                AllToAll{ElementType::float32, std::vector<std::int64_t>(size, counts[mine]),
                         offsets, counts, offsets},
                all.data(), all.data());
          }) == 3);
  }
  subject.device.finish();
}

TEST_CASE("communicators of the mesh's axes are NCCL's too, and both may be under way") {
  Subject subject;
  const int size = subject.world.size();
  const Communicator rows = subject.world.split(subject.world.rank() / 2, subject.world.rank());
  const Communicator columns = subject.world.split(subject.world.rank() % 2, subject.world.rank());
  for (const Communicator* each : {&rows, &columns}) subject.transport->prepare(*each);
  const Memory first = subject.floats();
  const Memory second = subject.floats();
  subject.fill(first, 1);
  subject.fill(second, 1);
  const std::int64_t operations = operations_of([&] {
    Pending of_rows = subject.transport->start(
        rows, AllReduce{ElementType::float32, Reduction::sum, count}, first.data());
    Pending of_columns = subject.transport->start(
        columns, AllReduce{ElementType::float32, Reduction::sum, count}, second.data());
    of_columns.wait();
    of_rows.wait();
  });
  CHECK(operations == (rows.size() > 1 ? 1 : 0) + (columns.size() > 1 ? 1 : 0));
  CHECK(subject.others_than(static_cast<float>(rows.size()), first) == 0);
  CHECK(subject.others_than(static_cast<float>(columns.size()), second) == 0);
  CHECK(subject.transport->remark().empty());
  CHECK(size >= rows.size());
}

TEST_CASE("what NCCL sends from the device may arrive in the host's memory, and the reverse") {
  Subject subject;
  const Communicator& world = subject.world;
  const auto size = static_cast<std::size_t>(world.size());
  const std::vector<std::int64_t> all(size, count), none(size, 0);
  std::vector<std::int64_t> to_root(size, 0), from_all(size, 0), offsets(size, 0);
  to_root[0] = count;
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (world.rank() == 0) from_all[rank] = count;
    offsets[rank] = static_cast<std::int64_t>(rank) * count;
  }
  const Memory memory = subject.floats();
  subject.fill(memory, static_cast<float>(world.rank() + 1));
  std::vector<float> host(world.rank() == 0 ? size * count : 0, -1.0f);
  const std::int64_t operations = operations_of([&] {
    for (int call = 0; call < 2; ++call) {
      subject.transport->run(world,
                             AllToAll{ElementType::float32, to_root, none, from_all, offsets},
                             memory.data(), host.data());
    }
  });
  CHECK(operations == (alone() ? 0 : 2));
  for (std::size_t i = 0; i < host.size(); ++i) {
    if (host[i] != static_cast<float>(i / count + 1)) FAIL("element " << i << " is " << host[i]);
  }
  // What the second sends comes to where the first has it from, but not before that is gone.
  const Memory other = subject.floats();
  for (const Memory* to : {&memory, &other}) {
    for (float& value : host) value += 1;
    subject.transport->run(world, AllToAll{ElementType::float32, from_all, offsets, to_root, none},
                           host.data(), to->data());
  }
  CHECK(subject.others_than(static_cast<float>(world.rank() + 2), memory) == 0);
  CHECK(subject.others_than(static_cast<float>(world.rank() + 3), other) == 0);
}

TEST_CASE("communicators that add in another order than their siblings are staged") {
  const Communicator world = Communicator::world();
  if (world.size() < 8) return;
  const Communicator half = world.split(world.rank() / 4, world.rank());
  Subject subject;
  CHECK(subject.transport->remark().empty());
  nccl_on_host().adds_backwards = world.rank() < 4;
  subject.transport->prepare(half);
  nccl_on_host().adds_backwards = false;
  CHECK_THAT(subject.transport->remark(),
             Catch::Contains("groups of 4 ranks are staged") && Catch::Contains("another order"));
  const Memory memory = subject.floats();
  subject.fill(memory, 1);
  CHECK(operations_of([&] {
          subject.transport->run(half, AllReduce{ElementType::float32, Reduction::sum, count},
                                 memory.data());
        }) == 0);
  CHECK(subject.others_than(4, memory) == 0);
}

TEST_CASE("siblings are compared at the sizes of the sums that are announced") {
  const Communicator world = Communicator::world();
  if (world.size() < 8) return;
  const ElementType type = GENERATE(ElementType::float32, ElementType::float64);
  for (const bool scattered : {false, true}) {
    const Communicator half = world.split(world.rank() / 4, world.rank());
    Subject subject;
    subject.transport->prepare(half);
    const auto announce = [&](std::vector<std::int64_t> counts) {
      subject.transport->announce(
          half, scattered ? Collective(ReduceScatter{type, counts})
                          : Collective(AllReduce{type, Reduction::sum, counts.front()}));
    };
    const std::vector<std::int64_t> counts =
        scattered ? std::vector<std::int64_t>{500, 600, 0, 700} : std::vector<std::int64_t>{1000};
    announce(counts);
    CHECK(subject.transport->remark().empty());
    CHECK(is_enqueued(*subject.transport, half, ElementType::float32));
    nccl_on_host().adds_backwards = world.rank() < 4;
    // Known already; and those that add up other things are not compared.
    announce(counts);
    const std::int64_t own = 100 + world.rank() / 4;
    announce(scattered ? std::vector<std::int64_t>(4, own) : std::vector<std::int64_t>{own});
    CHECK(subject.transport->remark().empty());
    const std::vector<std::int64_t> others =
        scattered ? std::vector<std::int64_t>{50, 60, 0, 70} : std::vector<std::int64_t>{2000};
    announce(others);
    nccl_on_host().adds_backwards = false;
    CHECK_THAT(subject.transport->remark(), Catch::Contains("groups of 4 ranks are staged"));
    CHECK_FALSE(is_enqueued(*subject.transport, half, ElementType::float32));
  }
}

TEST_CASE("an error of NCCL says the call, NCCL's words and where to learn more") {
  Subject subject;
  if (alone()) return;
  const Memory memory = subject.floats();
  nccl_on_host().failing = "ncclAllReduce";
  CHECK_THROWS_WITH(subject.sum(memory),
                    Catch::Contains("ncclAllReduce failed: invalid argument, of a library that is "
                                    "none (nccl_transport.cpp:") &&
                        Catch::Contains("NCCL_DEBUG=WARN"));
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(subject.world.size()), 1);
  const std::vector<std::int64_t> offsets(counts.size(), 0);
  // Inside a group, which is left.
  nccl_on_host().failing = "ncclSend";
  CHECK_THROWS_WITH(
      subject.transport->run(subject.world,
                             AllToAll{ElementType::float32, counts, offsets, counts, offsets},
                             memory.data(), memory.data()),
      Catch::Contains("ncclSend failed"));
  subject.fill(memory, 1);
  subject.sum(memory);
  CHECK(subject.others_than(ranks(), memory) == 0);
}

TEST_CASE("a communicator that cannot be made is an error on all ranks") {
  if (alone()) return;
  const Communicator world = Communicator::world();
  if (world.rank() == 0) nccl_on_host().failing = "ncclGetUniqueId";
  CHECK_THROWS_WITH(Subject(), Catch::Contains("rank 0: ncclGetUniqueId failed"));
  nccl_on_host().failing = "ncclCommInitRankConfig";
  CHECK_THROWS_WITH(Subject(), Catch::Contains("ncclCommInitRankConfig for ") &&
                                   Catch::Contains(" ranks failed: unhandled system error"));
}

TEST_CASE("a group that cannot be split from all ranks is an error on all of them") {
  if (alone()) return;
  Subject subject;
  const Communicator half = subject.world.split(subject.world.rank() % 2, subject.world.rank());
  if (subject.world.rank() == 1) nccl_on_host().failing = "ncclCommSplit";
  CHECK_THROWS_WITH(subject.transport->prepare(half),
                    Catch::Contains("rank 1: ncclCommSplit of ") &&
                        Catch::Contains("failed: unhandled system error"));
}

TEST_CASE("a first sum that one rank cannot start is an error on all, which do not wait for it") {
  if (alone()) return;
  if (Communicator::world().rank() == 1) nccl_on_host().failing = "ncclAllReduce";
  const std::int64_t before = nccl_on_host().aborted;
  CHECK_THROWS_WITH(Subject(), Catch::Contains("rank 1: ncclAllReduce failed"));
  CHECK(nccl_on_host().aborted == before + 1);
}

TEST_CASE("a group is split from all ranks, and all ranks in their order are one communicator") {
  if (alone()) return;
  Subject subject;
  const Communicator again = subject.world.duplicate();
  const Communicator half = subject.world.split(subject.world.rank() / 2, subject.world.rank());
  const Communicator turned = subject.world.split(0, -subject.world.rank());
  const std::int64_t before = nccl_on_host().communicators;
  subject.transport->prepare(again);
  CHECK(nccl_on_host().communicators == before);
  subject.transport->prepare(half);
  const std::int64_t of_half = half.size() > 1 && half.size() < subject.world.size() ? 1 : 0;
  CHECK(nccl_on_host().communicators == before + of_half);
  subject.transport->prepare(turned);
  CHECK(nccl_on_host().communicators == before + of_half + 1);
  const Memory memory = subject.floats();
  for (const Communicator* each : {&again, &half, &turned}) {
    subject.fill(memory, 1);
    CHECK(operations_of([&] {
            subject.transport->run(*each, AllReduce{ElementType::float32, Reduction::sum, count},
                                   memory.data());
          }) == (each->size() > 1 ? 1 : 0));
    CHECK(subject.others_than(static_cast<float>(each->size()), memory) == 0);
    // Its own root, wherever it stands among all.
    subject.fill(memory, static_cast<float>(each->rank() + 1));
    subject.transport->run(*each, Broadcast{ElementType::float32, count, 0}, memory.data());
    CHECK(subject.others_than(1, memory) == 0);
  }
}

TEST_CASE("communicators are destroyed in the end, and aborted where an error ends the work") {
  if (alone()) return;
  const auto before = nccl_on_host();
  { const Subject subject; }
  CHECK(nccl_on_host().communicators == before.communicators + 1);
  CHECK(nccl_on_host().destroyed == before.destroyed + 1);
  CHECK(nccl_on_host().aborted == before.aborted);
  try {
    const Subject subject;
    throw std::runtime_error("enough");
  } catch (const std::runtime_error&) {
  }
  CHECK(nccl_on_host().destroyed == before.destroyed + 1);
  CHECK(nccl_on_host().aborted == before.aborted + 1);
}

TEST_CASE("the version of NCCL is as people write it") {
  CHECK(nccl::loaded_version() == "2.28.9");
}

}  // namespace meshwork::nccl_test
