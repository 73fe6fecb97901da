// Programs on a device that is apart from the processor: its memory, its lateness, what is captured
// and what is measured. The device itself is of the tests (tests/support/apart_device.h).
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/program.h"
#include "tests/support/apart_device.h"
#include "tests/support/apart_queues.h"
#include "tests/support/catch.h"

namespace meshwork::apart_test {
namespace {

/// An apart device, of which can be asked how much was captured.
struct Watched {
  std::unique_ptr<Device> device = test::make_apart_device({});

  [[nodiscard]] std::int64_t captures() const {
    return dynamic_cast<test::ApartQueues&>(device->queues()).captures();
  }
};

/// Something that the processor does between kernels, as a collective.
class OnHost final : public Kernel {
 public:
  explicit OnHost(int& runs) : runs_(runs) {}
  void run(void* const* /*operands*/) override { ++runs_; }

 private:
  int& runs_;
};

/// x + 1 + 2 + 3, then something on the host, then + 4 + 5.
struct Sum {
  explicit Sum(Device& device) : pool(device), input(device.allocate(12)) {
    ProgramBuilder builder(device);
    const Buffer x = builder.external(input.data(), 12, "x");
    const Buffer y = builder.scratch(12, "y");
    result = builder.scratch(12, "result");
    builder.keep(result);
    builder.emit(AffineSpec{3, 1, 1}, {x, y}, "one");
    builder.emit(AffineSpec{3, 1, 2}, {y, y}, "two");
    builder.emit(AffineSpec{3, 1, 3}, {y, result}, "three");
    builder.emit(std::make_unique<OnHost>(on_host), {result}, "host");
    builder.emit(AffineSpec{3, 1, 4}, {result, result}, "four");
    builder.emit(AffineSpec{3, 1, 5}, {result, result}, "five");
    program = builder.finish(pool);
  }
  [[nodiscard]] std::vector<float> of(Device& device, std::vector<float> values) {
    device.copy_in(input.data(), values.data(), 12);
    program.run();
    device.copy_out(values.data(), program.address(result), 12);
    return values;
  }

  ArenaPool pool;
  Memory input;
  Buffer result;
  Program program;
  int on_host = 0;
};

}  // namespace

TEST_CASE("memory of a device that is apart is not the host's to touch") {
  const auto device = test::make_apart_device({});
  const Memory memory = device->allocate(4);
  const int value = 7;
  device->copy_in(memory.data(), &value, 4);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    ::_exit(*static_cast<volatile int*>(memory.data()));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  int back = 0;
  device->copy_out(&back, memory.data(), 4);
  CHECK(back == 7);
}

TEST_CASE("work that nobody waits for is not done, and marks say so") {
  const auto device = test::make_apart_device({});
  const Memory memory = device->allocate(4);
  DeviceQueues& queues = device->queues();
  const Memory pinned = queues.allocate_pinned(8);
  auto* const values = static_cast<float*>(pinned.data());
  values[0] = 3;
  const auto arrived = queues.make_mark();
  CHECK(arrived->reached());
  queues.transfers().start_copy(memory.data(), values, 4);
  queues.transfers().record(*arrived);
  // Without this the kernels would find a zero.
  queues.kernels().wait_for(*arrived);
  queues.kernels().start_copy(values + 1, memory.data(), 4);
  CHECK_FALSE(arrived->reached());
  CHECK(values[1] == 0);
  device->synchronize();
  CHECK(arrived->reached());
  CHECK(values[1] == 3);
}

TEST_CASE("consecutive kernels are captured after the first run, and again on new addresses") {
  Watched watched;
  Device& device = *watched.device;
  Sum sum(device);
  CHECK(sum.of(device, {1, 2, 3}) == std::vector<float>{16, 17, 18});
  CHECK(watched.captures() == 0);
  for (int run = 0; run < 3; ++run) {
    CHECK(sum.of(device, {0, 5, -1}) == std::vector<float>{15, 20, 14});
    CHECK(sum.program.start_count() == 3);
    CHECK(watched.captures() == 2);
  }
  CHECK(sum.on_host == 4);
  // A larger program of the pool moves its arena.
  ProgramBuilder builder(device);
  const Buffer large = builder.scratch(1 << 20, "large");
  builder.keep(large);
  builder.emit(ZeroSpec{1 << 20}, {large}, "zeros");
  Program other = builder.finish(sum.pool);
  for (int run = 0; run < 3; ++run) {
    other.run();
    CHECK(sum.of(device, {1, 2, 3}) == std::vector<float>{16, 17, 18});
    CHECK(watched.captures() == (run == 0 ? 2 : 4));
  }
}

TEST_CASE("what is measured are the kernels, not their start") {
  const auto made = test::make_apart_device({});
  Device& device = *made;
  ProgramBuilder builder(device);
  constexpr std::int64_t count = 1 << 22;
  const Buffer x = builder.scratch(count * 4, "x");
  builder.keep(x);
  builder.emit(ZeroSpec{4}, {x}, "little");
  builder.emit(AffineSpec{count, 1, 1}, {x, x}, "much");
  Program program = builder.finish();
  // Their starts cost the same. One of several runs is undisturbed.
  bool much_longer = false;
  for (int run = 0; run < 20 && !much_longer; ++run) {
    program.measure();
    program.run();
    const MeasuredTimes& measured = program.measured();
    REQUIRE(measured.seconds.size() == 2);
    CHECK(measured.runs == 1);
    much_longer = measured.seconds[1] > 50 * measured.seconds[0];
  }
  CHECK(much_longer);
  program.stop_measuring();
  CHECK(program.measured().seconds.empty());
}

TEST_CASE("a program runs on its device from whichever thread, beside other devices") {
  const auto first = test::make_apart_device({}), second = test::make_apart_device({});
  std::vector<float> seen(4);
  ProgramBuilder builder(*first);
  const Buffer values = builder.scratch(16, "values");
  builder.keep(values);
  builder.emit(AffineSpec{4, 0, 3}, {values, values}, "three");
  Program program = builder.finish();
  for (int run = 0; run < 2; ++run) program.run();
  std::thread([&] { program.run(); }).join();
  first->copy_out(seen.data(), program.address(values), 16);
  CHECK(seen == std::vector<float>(4, 3));
}

}  // namespace meshwork::apart_test
