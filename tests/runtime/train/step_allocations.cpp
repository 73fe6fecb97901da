// A training step allocates nothing, from the second one on: feeding, running, summing and logging.
#include <array>

#include "layers/activation.h"
#include "layers/dense.h"
#include "layers/dropout.h"
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
                 .kernel_regularizer = {.l2 = 0.01f}})(y);
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

}  // namespace meshwork::step_allocations_test
