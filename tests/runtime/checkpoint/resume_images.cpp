// A network of convolutions and batch normalization, whose moving statistics are state as well,
// with every optimizer: cut off twice inside epochs it ends as a run that was not, bit for bit on
// the same mesh, to rounding where the second part runs on another one.
#include <cstring>
#include <filesystem>

#include "layers/batch_normalization.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/global_pooling.h"
#include "layers/relu.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/optimizers/adadelta.h"
#include "runtime/train/optimizers/adafactor.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/ftrl.h"
#include "runtime/train/optimizers/lamb.h"
#include "runtime/train/optimizers/nadam.h"
#include "runtime/train/optimizers/rmsprop.h"
#include "runtime/train/optimizers/schedule_free_adamw.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"
#include "tests/support/stop_after.h"

namespace meshwork::resume_images_test {

using namespace meshwork::test;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t rows = 45;  // batches of 8, the last of 5
constexpr std::int64_t batches = 6;

std::shared_ptr<const Source> samples() {
  std::vector<float> labels = random_floats(rows, 2, 0, 5);
  for (float& label : labels) label = std::floor(label);
  return std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", random_floats(rows * 8 * 8, 1), {rows, 8, 8, 1}),
                         Array("t", std::move(labels), {rows}, FieldRole::target)});
}

// The weights, moving statistics among them, of a run in `directory` that ends after `stop_after`
// updates if it is asked to. With an empty directory there are no checkpoints.
std::vector<std::vector<float>> run(DeviceMesh& mesh, const LayoutEntries& layouts,
                                    const Optimizer& optimizer, const fs::path& directory,
                                    std::int64_t stop_after = 0) {
  const auto input = Input({8, 8, 1});
  auto x = Conv2D(
      {.name = "c1", .filters = 6, .kernel_size = 3, .padding = Padding::same, .use_bias = false})(
      input);
  x = ReLU({.name = "r1"})(BatchNormalization({.name = "n1", .momentum = 0.9})(x));
  x = Conv2D({.name = "c2", .filters = 8, .kernel_size = 3, .strides = 2})(x);
  x = ReLU({.name = "r2"})(BatchNormalization({.name = "n2", .momentum = 0.9})(x));
  x = GlobalAveragePooling2D({.name = "mean"})(x);
  x = Dropout({.name = "drop", .rate = 0.25})(x);
  Model model(input, Dense({.name = "scores", .units = 5})(x),
              spread_over(mesh, layouts, mesh.shape().name(0)), {.seed = 4});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = optimizer,
                 .metrics = {}});
  StopRequest request;
  FitOptions options{.epochs = 3, .batch_size = 8, .verbose = Verbosity::silent};
  if (!directory.empty()) {
    options.checkpoint = {.directory = directory, .resume = Resume::automatic};
  }
  if (stop_after > 0) {
    options.stop_request = &request;
    options.callbacks = {std::make_shared<StopAfter>(request, stop_after)};
  }
  const History history = model.fit(samples(), std::move(options));
  CHECK(history.stop_reason == (stop_after > 0 ? 15 : 0));
  CHECK(model.iteration() == (stop_after > 0 ? stop_after : 3 * batches));
  return variables_of(model);
}

fs::path fresh_directory(const DeviceMesh& mesh, const std::string& name) {
  const fs::path directory = fs::current_path() / name;
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  if (mesh.rank() == 0) fs::remove_all(directory);
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  return directory;
}

struct Kind {
  const char* name;
  Optimizer optimizer;
};

std::vector<Kind> kinds() {
  return {
      {"SGD with momentum", SGD({.learning_rate = 0.05, .momentum = 0.9})},
      {"RMSprop, centered, with momentum",
       RMSprop({.learning_rate = 0.005, .momentum = 0.5, .centered = true})},
      {"Adam with amsgrad", Adam({.learning_rate = 0.01, .amsgrad = true})},
      {"Nadam", Nadam({.learning_rate = 0.01})},
      {"Lamb", Lamb({.learning_rate = 0.01})},
      {"ScheduleFreeAdamW", ScheduleFreeAdamW({.learning_rate = 0.01})},
      {"Adafactor", Adafactor({.learning_rate = 0.01})},
      {"Adadelta", Adadelta({.learning_rate = 0.1})},
      {"Ftrl, with a power of its own", Ftrl({.learning_rate = 0.1, .learning_rate_power = -0.7})}};
}

}  // namespace

TEST_CASE("convolutions and batch normalization go on bit for bit, with every optimizer") {
  const int size = Communicator::world().size();
  DeviceMesh mesh = size % 2 == 0 ? DeviceMesh({{"data", size / 2}, {"model", 2}})
                                  : DeviceMesh({{"data", size}, {"model", 1}});
  const LayoutEntries layouts{{"c2/kernel", {unsharded, unsharded, unsharded, "model"}},
                              {"c2/bias", {"model"}}};
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    const auto straight = run(mesh, layouts, kind.optimizer, "");
    const fs::path directory = fresh_directory(mesh, "resumed_images");
    (void)run(mesh, layouts, kind.optimizer, directory, 2);
    (void)run(mesh, layouts, kind.optimizer, directory, batches + 3);
    const auto resumed = run(mesh, layouts, kind.optimizer, directory);
    REQUIRE(resumed.size() == straight.size());
    for (std::size_t i = 0; i < resumed.size(); ++i) {
      REQUIRE(resumed[i].size() == straight[i].size());
      CHECK(std::memcmp(resumed[i].data(), straight[i].data(), straight[i].size() * 4) == 0);
    }
  }
}

TEST_CASE("convolutions and batch normalization go on on another mesh, to rounding") {
  DeviceMesh mesh({{"data", -1}});
  DeviceMesh other({{"rows", 1}, {"model", -1}});
  // Plain descent: where an optimizer divides by a root of squares, rounding of small gradients
  // grows. Sums of 8 * 64 values in another order differ by some 1e-6, over 18 updates.
  const Optimizer optimizer = SGD({.learning_rate = 0.05, .momentum = 0.9});
  const auto straight = run(mesh, {}, optimizer, "");
  const fs::path directory = fresh_directory(mesh, "moved_images");
  (void)run(mesh, {}, optimizer, directory, batches + 3);
  const auto moved = run(other,
                         {{"c2/kernel", {unsharded, unsharded, unsharded, "model"}},
                          {"c1/kernel", {unsharded, unsharded, unsharded, "model"}}},
                         optimizer, directory);
  REQUIRE(moved.size() == straight.size());
  for (std::size_t i = 0; i < moved.size(); ++i) {
    CHECK(difference(moved[i], straight[i], 1e-4) == "");
  }
}

}  // namespace meshwork::resume_images_test
