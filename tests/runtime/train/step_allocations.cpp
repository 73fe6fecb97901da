// A training step allocates nothing, from the second one on: feeding, running, summing and logging.
#include <array>

#include "layers/activation.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/regularizers/l1_l2.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/allocations.h"
#include "tests/support/one_rank.h"

namespace meshwork::step_allocations_test {

using namespace meshwork::test;

namespace {

// How many allocations there were at the end of each batch.
class Counts final : public Callback {
 public:
  std::array<long, 16> counts{};
  std::string class_name() const override { return "Counts"; }
  void on_train_batch_end(Training& training) override {
    counts[static_cast<std::size_t>(training.position().batch)] = allocations;
  }
};

}  // namespace

TEST_CASE("a training step allocates nothing after the second one") {
  DeviceMesh mesh({{"data", -1}, {"model", Communicator::world().size() % 2 == 0 ? 2 : 1}});
  const std::int64_t rows = 128;
  std::vector<float> classes;
  for (std::int64_t row = 0; row < rows; ++row) {
    classes.push_back(static_cast<float>(row % 3));
  }
  std::vector<Array> arrays{Array("x", random_floats(rows * 4, 1), {rows, 4}),
                            Array("t", classes, {rows}, FieldRole::target)};
  const auto source = std::make_shared<ArraySource>(std::move(arrays));
  for (const LayoutEntries& entries :
       {LayoutEntries{},
        LayoutEntries{{"d1/kernel", {unsharded, "model"}}, {"d2/kernel", {"model", unsharded}}},
        LayoutEntries{{".*/kernel", {"data", unsharded}}}}) {
    for (const bool prefetch : {false, true}) {
      INFO(test::to_string(entries) << (prefetch ? ", prefetched" : ""));
      const auto x = Input({4});
      auto y = Dense({.name = "d1", .units = 5, .activation = Activation::relu})(x);
      y = Dropout({.rate = 0.5f})(y);
      y = Dense({.name = "d2",
                 .units = 3,
                 .activation = Activation::softmax,
                 .kernel_regularizer = L2(0.01f)})(y);
      Model model(x, y, spread_over(mesh, entries));
      model.compile({.loss = SparseCategoricalCrossentropy(),
                     .optimizer = Adam({.global_clipnorm = 1.0}),
                     .metrics = {SparseCategoricalAccuracy()},
                     .gradient_norm = true});
      const auto counts = std::make_shared<Counts>();
      (void)model.fit(source, {.batch_size = 8,
                               .callbacks = {counts},
                               .verbose = Verbosity::silent,
                               .prefetch = prefetch});
      for (std::size_t step = 2; step < counts->counts.size(); ++step) {
        INFO("step " << step);
        CHECK(counts->counts[step] == counts->counts[1]);
      }
    }
  }
}

TEST_CASE("a step on a batch of the user's allocates its logs alone, after the second one") {
  const int ranks = Communicator::world().size();
  // Over "model" the rows of a batch, which ranks have by parts, are needed whole.
  for (const char* axis : {"data", "model"}) {
    DeviceMesh mesh({{"data", axis[0] == 'd' ? ranks : 1}, {"model", axis[0] == 'd' ? 1 : ranks}});
    const auto x = Input({4});
    Model model(x, Dense({.name = "d1", .units = 3})(x),
                spread_over(mesh, {{"d1/kernel", {unsharded, "model"}}}));
    model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true})});
    const std::int64_t own = 2 + Communicator::world().rank(), rows = ranks * (ranks + 3) / 2;
    const std::vector<float> features = random_floats(rows * 4, 1);
    const std::vector<float> classes(static_cast<std::size_t>(rows), 1.0f);
    const BatchView whole{.rows = rows, .inputs = {features}, .targets = {classes}};
    const LocalBatch local{.rows = own,
                           .inputs = {std::span(features).first(own * 4)},
                           .targets = {std::span(classes).first(own)}};
    for (int step = 0; step < 4; ++step) {
      const long before = allocations;
      Logs logs = model.train_step(whole);
      const long between = allocations;
      logs = model.train_local_step(local);
      const long after = allocations;
      const Logs copy = logs;
      const long of_logs = allocations - after;
      if (step < 2) continue;
      INFO(axis << ", step " << step);
      CHECK(between - before == of_logs);
      CHECK(after - between == of_logs);
    }
  }
}

}  // namespace meshwork::step_allocations_test
