// Transports for a device's own memory: what comes behind which kernels, who waits for what, and
// what is allocated when. That they are transports, transport.cpp tests.
#include "collectives/staged_transport.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "collectives/mpi_transport.h"
#include "tests/collectives/apart_subject.h"
#include "tests/support/catch.h"

namespace meshwork::staged_test {

using meshwork::test::ApartSubject;

namespace {

constexpr std::int64_t count = ApartSubject::count;

/// Staged in pieces, or not staged at all.
struct Subject : ApartSubject {
  explicit Subject(bool reached) : ApartSubject(!reached, false) {
    transport = make_staged_transport(make_mpi_transport(), device,
                                      {.piece_bytes = 1024, .inner_reaches_device = reached});
  }
};

float ranks() {
  return static_cast<float>(Communicator::world().size());
}

}  // namespace

TEST_CASE("a collective comes behind the kernels before it and before those after it") {
  Subject subject(GENERATE(false, true));
  const Memory memory = subject.floats();
  // Twice: what the first brought back is still to be copied when the second begins.
  float expected = 1;
  subject.fill(memory, 1);
  for (int call = 0; call < 2; ++call) {
    subject.add(memory, 1);
    subject.transport->run(Communicator::world(),
                           AllReduce{ElementType::float32, Reduction::sum, count}, memory.data());
    subject.add(memory, 3);
    expected = (expected + 1) * ranks() + 3;
  }
  CHECK(subject.others_than(expected, memory) == 0);
}

TEST_CASE("a started reduction takes what the kernels before it wrote, and kernels go on") {
  const bool reached = GENERATE(false, true);
  Subject subject(reached);
  const Memory first = subject.floats();
  const Memory second = subject.floats();
  const Memory other = subject.floats();
  subject.fill(first, 2);
  Pending of_first = subject.start(first);
  subject.fill(second, 5);
  subject.fill(other, 7);
  // The processor has not waited for anything, and waits for no more than the first to start
  // another: the kernels behind it are not done.
  CHECK(subject.device.waits() == 0);
  Pending of_second = subject.start(second);
  CHECK(subject.device.waits() <= (Communicator::world().size() > 1 ? (reached ? 1 : 4) : 0));
  subject.add(other, 1);
  const std::int64_t before = subject.device.waits();
  of_first.wait();
  const std::int64_t behind = subject.device.waits();
  of_second.wait();
  subject.add(first, 1);
  subject.add(second, 1);
  // Nobody has waited for what was brought back but the kernels.
  CHECK(subject.device.waits() == behind);
  CHECK(before <= behind);
  CHECK(subject.others_than(2 * ranks() + 1, first) == 0);
  CHECK(subject.others_than(5 * ranks() + 1, second) == 0);
  CHECK(subject.others_than(8, other) == 0);
}

TEST_CASE("a started reduction keeps its place among other collectives on all ranks") {
  Subject subject(GENERATE(false, true));
  const Communicator world = Communicator::world();
  const Memory memory = subject.floats();
  subject.fill(memory, 1);
  Pending pending = subject.start(memory);
  // Blocking ones of the host's memory on the same communicator come between.
  std::int32_t one = 1;
  subject.transport->run(world, AllReduce{ElementType::int32, Reduction::sum, 1}, &one);
  subject.transport->barrier_of_sharers(world);
  CHECK(one == world.size());
  pending.wait();
  CHECK(subject.others_than(ranks(), memory) == 0);
}

TEST_CASE(
    "a started exchange takes what kernels wrote, and kernels behind it see what it brought") {
  Subject subject(GENERATE(false, true));
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  const Memory sent = subject.floats(), received = subject.floats();
  const int next = (world.rank() + 1) % world.size();
  const int last = (world.rank() + world.size() - 1) % world.size();
  const std::shared_ptr<CompiledCollective> exchange = subject.transport->compile(
      world, Exchange{ElementType::float32, {{next, count, 0}}, {{last, count, 0}}, 3},
      Use::started);
  // Twice: what it brought the first time is still to be copied when it begins again.
  for (int call = 0; call < 2; ++call) {
    subject.fill(sent, 10.0f * static_cast<float>(call));
    subject.add(sent, static_cast<float>(world.rank()));
    Pending pending(exchange, sent.data(), received.data());
    pending.wait();
    subject.add(received, 0.5f);
    subject.fill(sent, -1);
    CHECK(subject.others_than(10.0f * static_cast<float>(call) + static_cast<float>(last) + 0.5f,
                              received) == 0);
  }
}

TEST_CASE("nothing is allocated for what was reserved, and nothing for the host's buffers") {
  Subject subject(false);
  const Communicator world = Communicator::world();
  std::vector<float> on_host(count, 1.0f);
  subject.transport->run(world, AllReduce{ElementType::float32, Reduction::sum, count},
                         on_host.data());
  CHECK(subject.device.pinned_allocations() == 0);
  const std::vector<std::int64_t> started{count * 4, 40};
  subject.transport->reserve(count * 4, started);
  subject.transport->reserve(count * 2, started);
  CHECK(subject.device.pinned_allocations() == 3);
  const Memory first = subject.floats();
  const Memory second = subject.floats();
  const Memory third = subject.floats();
  for (int step = 0; step < 3; ++step) {
    for (const Memory* memory : {&first, &second, &third}) subject.fill(*memory, 1);
    // The smaller first: it leaves the larger room to the other.
    Pending of_first = subject.transport->start(
        world, AllReduce{ElementType::float32, Reduction::sum, 10}, first.data());
    Pending of_second = subject.start(second);
    subject.transport->run(world, AllReduce{ElementType::float32, Reduction::sum, count},
                           third.data());
    of_second.wait();
    of_first.wait();
    CHECK(subject.others_than(ranks(), third) == 0);
    CHECK(subject.others_than(ranks(), second) == 0);
  }
  CHECK(subject.device.pinned_allocations() == 3);
}

TEST_CASE("what the device sends may arrive in the host's memory, and the reverse") {
  Subject subject(false);
  const Communicator world = Communicator::world();
  const auto size = static_cast<std::size_t>(world.size());
  const std::vector<std::int64_t> all(size, count), none(size, 0);
  std::vector<std::int64_t> to_root(size, 0), from_all(size, 0), offsets(size, 0);
  to_root[0] = count;
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (world.rank() == 0) from_all[rank] = count;
    offsets[rank] = static_cast<std::int64_t>(rank) * count;
  }
  const Memory memory = subject.floats();
  subject.fill(memory, static_cast<float>(world.rank()));
  std::vector<float> host(world.rank() == 0 ? size * count : 0, -1.0f);
  subject.transport->run(world, AllToAll{ElementType::float32, to_root, none, from_all, offsets},
                         memory.data(), host.data());
  for (std::size_t i = 0; i < host.size(); ++i) {
    if (host[i] != static_cast<float>(i / count)) FAIL("element " << i << " is " << host[i]);
  }
  for (float& value : host) value += 1;
  subject.transport->run(world, AllToAll{ElementType::float32, from_all, offsets, to_root, none},
                         host.data(), memory.data());
  CHECK(subject.others_than(static_cast<float>(world.rank() + 1), memory) == 0);
}

}  // namespace meshwork::staged_test
