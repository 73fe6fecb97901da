// The queues of the device under test: what is captured, and what is counted.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "runtime/device/kernels/elementwise.h"
#include "tests/runtime/device/kernel_device.h"
#include "tests/support/catch.h"

namespace meshwork::queues_test {
namespace {

constexpr std::int64_t count = 1000;

/// Floats on the device, 0 at first.
struct Floats {
  Memory memory = test::kernel_device().allocate(count * 4);

  [[nodiscard]] std::vector<float> get() const {
    std::vector<float> values(count);
    test::kernel_device().copy_out(values.data(), memory.data(), count * 4);
    return values;
  }
};

std::vector<float> all(float value) {
  return std::vector<float>(count, value);
}

}  // namespace

TEST_CASE("a queue counts what it has done") {
  Device& device = test::kernel_device();
  DeviceQueues& queues = device.queues();
  const Memory pinned = queues.allocate_pinned(8);
  auto& counted = *static_cast<std::uint64_t*>(pinned.data());
  for (int i = 0; i < 5; ++i) queues.transfers().start_count(counted);
  device.synchronize();
  CHECK(counted == 5);
}

TEST_CASE("what was captured is done at every start, in all queues that took part, in order") {
  Device& device = test::kernel_device();
  DeviceQueues& queues = device.queues();
  const Memory pinned = queues.allocate_pinned(8);
  auto& counted = *static_cast<std::uint64_t*>(pinned.data());
  const Floats a, b;
  const std::unique_ptr<Kernel> more = device.compile(AffineSpec{count, 1, 1});
  const std::unique_ptr<Kernel> doubled = device.compile(AffineSpec{count, 2, 0});
  void* const in_a[] = {a.memory.data(), a.memory.data()};
  void* const in_b[] = {b.memory.data(), b.memory.data()};
  const std::unique_ptr<Mark> before = queues.make_mark();
  const std::unique_ptr<Mark> behind = queues.make_mark();
  // a = a + 1; b = 2 a, whose copy goes by the queue of transfers.
  const auto work = [&] {
    more->run(in_a);
    queues.kernels().record(*before);
    queues.transfers().wait_for(*before);
    queues.transfers().start_copy(b.memory.data(), a.memory.data(), count * 4);
    queues.transfers().record(*behind);
    queues.transfers().start_count(counted);  // which nobody waits for
    queues.kernels().wait_for(*behind);
    doubled->run(in_b);
  };
  CHECK_FALSE(queues.is_capturing());
  work();
  const std::unique_ptr<CapturedWork> captured = queues.capture([&] {
    CHECK(queues.is_capturing());
    work();
  });
  CHECK_FALSE(queues.is_capturing());
  // Nothing is done by that.
  CHECK(a.get() == all(1));
  if (device.traits().computes_in_host_memory) {
    CHECK(captured == nullptr);
    return;
  }
  REQUIRE(captured != nullptr);
  for (int start = 0; start < 3; ++start) captured->start();
  CHECK(a.get() == all(4));
  CHECK(b.get() == all(8));
  CHECK(counted == 4);
  // The queues serve as before.
  work();
  CHECK(a.get() == all(5));
  CHECK(b.get() == all(10));
  CHECK(counted == 5);
}

TEST_CASE("an error while work is captured leaves queues that serve") {
  Device& device = test::kernel_device();
  DeviceQueues& queues = device.queues();
  if (device.traits().computes_in_host_memory) return;
  const Floats a;
  const std::unique_ptr<Kernel> more = device.compile(AffineSpec{count, 1, 1});
  void* const in_a[] = {a.memory.data(), a.memory.data()};
  const std::unique_ptr<Mark> before = queues.make_mark();
  more->run(in_a);
  CHECK_THROWS_WITH((void)queues.capture([&] {
    more->run(in_a);
    queues.kernels().record(*before);
    queues.transfers().wait_for(*before);
    throw std::runtime_error("enough");
  }),
                    "enough");
  CHECK_FALSE(queues.is_capturing());
  more->run(in_a);
  CHECK(a.get() == all(2));
}

}  // namespace meshwork::queues_test
