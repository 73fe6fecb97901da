// From the third step on, a training step takes no new page from the system: what it works on was
// touched before, and nothing is given back and taken again. MPI's own memory apart, which the
// shared transport does without.
#include <sys/resource.h>

#include <array>

#include "layers/dense.h"
#include "layers/dropout.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/one_rank.h"

namespace meshwork::step_page_faults_test {

using namespace meshwork::test;

namespace {

/// How many page faults that needed no disk there were at the end of each batch.
class Faults final : public Callback {
 public:
  std::array<long, 24> counts{};
  std::string class_name() const override { return "Faults"; }
  void on_train_batch_end(Training& training) override {
    rusage usage{};
    REQUIRE(::getrusage(RUSAGE_SELF, &usage) == 0);
    counts[static_cast<std::size_t>(training.position().batch)] = usage.ru_minflt;
  }
};

}  // namespace

TEST_CASE("a training step takes no page from the system after the second one") {
  DeviceMesh mesh({{"data", -1}, {"model", Communicator::world().size() % 2 == 0 ? 2 : 1}});
  constexpr std::int64_t batch = 32;
  const auto faults = std::make_shared<Faults>();
  const std::int64_t rows = batch * std::ssize(faults->counts);
  std::vector<float> classes;
  for (std::int64_t row = 0; row < rows; ++row) classes.push_back(static_cast<float>(row % 10));
  const auto source = std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", random_floats(rows * 300, 1), {rows, 300}),
                         Array("t", classes, {rows}, FieldRole::target)});
  for (const LayoutEntries& entries :
       {LayoutEntries{},
        LayoutEntries{{"d1/kernel", {unsharded, "model"}}, {"d2/kernel", {"model", unsharded}}},
        LayoutEntries{{".*/kernel", {"data", unsharded}}}}) {
    INFO(test::to_string(entries));
    const auto x = Input({300});
    auto y = Dense({.name = "d1", .units = 500, .activation = Activation::relu})(x);
    y = Dropout({.rate = 0.5f})(y);
    y = Dense({.name = "d2", .units = 10, .activation = Activation::softmax})(y);
    Model model(x, y, spread_over(mesh, entries));
    model.compile({.loss = SparseCategoricalCrossentropy(),
                   .optimizer = Adam(),
                   .metrics = {SparseCategoricalAccuracy()}});
    (void)model.fit(source, {.batch_size = batch,
                             .callbacks = {faults},
                             .verbose = Verbosity::silent,
                             .prefetch = false});
    // The system has reasons of its own for one now and then: a step that took some would take them
    // every time.
    const long steps = std::ssize(faults->counts) - 2;
    CHECK(faults->counts.back() - faults->counts[1] < steps / 2);
  }
}

}  // namespace meshwork::step_page_faults_test
