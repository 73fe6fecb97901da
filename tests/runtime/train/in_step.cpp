// A function that ranks call, and that uses the model which its rank trains, in the middle of a step.
#include <atomic>
#include <chrono>
#include <thread>

#include "collectives/calls.h"
#include "collectives/error.h"
#include "layers/dense.h"
#include "runtime/rpc/rpc.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::in_step_test {

using namespace meshwork::test;

namespace {

using Floats = std::vector<float>;

constexpr std::int64_t rows = 8;

Model make_model(DeviceMesh& mesh) {
  const auto x = Input({2});
  Model model(x, Dense({.name = "line", .units = 1})(x), DataParallel(mesh));
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.1})});
  return model;
}

void step(Model& model) {
  const Floats ones(rows * 2, 1.0f);
  (void)model.train_step({rows, {ones}, {std::span(ones).first(rows)}});
}

std::string refusal(const std::string& call) {
  return "\"use\": " + call + ": the model is in the middle of a step";
}

}  // namespace

TEST_CASE("a function that runs between the instructions of a step cannot use the model") {
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh);
  step(model);
  Rpc rpc(Communicator::world(), {.threads = false});
  bool has_run = false;
  const bool trains = GENERATE(true, false);
  rpc.define("use", [&] {
    has_run = true;
    trains ? step(model) : model.set_variable("line/bias", Floats{1});
  });
  rpc.open();
  RpcAnswer<void> answer = rpc.call(rpc.rank(), "use");
  // Ranks make the same steps, whenever their functions run.
  for (int i = 0; i < 30; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // since a look in vain
    step(model);
  }
  CHECK(has_run);
  CHECK_THROWS_WITH(answer.get(), Catch::Contains(refusal(trains ? "train_step" : "set_variable")));
  rpc.close();
  model.set_variable("line/bias", Floats{1});
}

TEST_CASE("a function in a thread of the service cannot use the model during a step") {
  const Communicator world = Communicator::world();
  if (world.size() == 1 || !Calls::can_have_threads()) return;
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh);
  step(model);
  Rpc rpc(world);
  std::atomic<bool> begins{false};
  rpc.define("use", [&] {
    while (!begins) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    step(model);
  });
  rpc.open();
  // The step of rank 0 waits for that of rank 1.
  if (world.rank() == 1) {
    CHECK_THROWS_WITH(rpc.call(0, "use").get(), Catch::Contains(refusal("train_step")));
  }
  begins = true;
  step(model);
  rpc.close();
}

}  // namespace meshwork::in_step_test
