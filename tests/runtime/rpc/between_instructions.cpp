// Where calls have no threads, steps bring them on.
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "collectives/calls.h"
#include "runtime/device/program.h"
#include "tests/support/catch.h"

namespace meshwork::between_instructions_test {

namespace {

class Scripted final : public Kernel {
 public:
  explicit Scripted(std::function<void()> body) : body_(std::move(body)) {}
  void run(void* const*) override { body_(); }

 private:
  std::function<void()> body_;
};

}  // namespace

TEST_CASE("calls without threads are served between the instructions of a program") {
  const auto device = make_device({.kind = "cpu"});
  int runs = 0;
  Calls calls(Communicator::self(), {.threads = false});
  calls.define("count", [&](int, CallPayload) -> CallPayload {
    ++runs;
    return {};
  });
  calls.open();
  ProgramBuilder builder(*device);
  int most_inside = 0;
  constexpr int instructions = 200;
  for (int i = 0; i < instructions; ++i) {
    builder.emit(std::make_unique<Scripted>([&] {
                   most_inside = runs;
                   std::this_thread::sleep_for(std::chrono::microseconds(20));
                 }),
                 {}, "work");
  }
  Program program = builder.finish();
  Answer answer = calls.call(0, "count", {});
  SECTION("as it runs") {
    program.run();
    CHECK(most_inside == 1);
  }
  SECTION("or after runs that are measured") {
    program.measure();
    for (int i = 0; i < 20; ++i) program.run();
    CHECK(runs == 1);
  }
  CHECK(answer.is_ready());
  CHECK(has_calls_to_advance());
  calls.close();
  program.run();
  CHECK(runs == 1);
}

TEST_CASE("calls that another thread has destroyed are not to be brought on any more") {
  auto calls = std::make_unique<Calls>(Communicator::self(), CallsOptions{.threads = false});
  CHECK(has_calls_to_advance());
  std::thread([&calls] { calls.reset(); }).join();
  CHECK_FALSE(has_calls_to_advance());
}

}  // namespace meshwork::between_instructions_test
