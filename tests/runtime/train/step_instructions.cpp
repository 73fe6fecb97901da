// What the runtime itself costs: the instructions of a training step outside of kernels. They are
// counted, not timed (support/instructions.h), so that a step which grows is seen on any machine.
#include <iostream>

#include "layers/dense.h"
#include "runtime/device/kernel_spec.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/cpu_behind.h"
#include "tests/support/instructions.h"
#include "tests/support/one_rank.h"

namespace meshwork::step_instructions_test {

using namespace meshwork::test;

namespace {

/// Of a step of the network below: reading, feeding, walking the program, sums and logs. With GCC
/// 12 on x86-64; other compilers get a quarter more, and a step that is made cheaper is recorded
/// anew.
constexpr double recorded = 2840;

InstructionCounter& counter() {
  static InstructionCounter made;
  return made;
}

/// A CPU whose kernels are not counted.
class UncountedDevice final : public CpuBehind {
 public:
  explicit UncountedDevice(const DeviceOptions& options)
      : CpuBehind({.kind = "uncounted"}, options) {}
  [[nodiscard]] std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    return within(CpuBehind::compile(spec), [](const auto& run) { counter().pass_over(run); });
  }
};

/// Counts from the end of one step to that of a later one.
class CountedSteps final : public Callback {
 public:
  double instructions_a_step = 0;
  std::string class_name() const override { return "CountedSteps"; }
  bool decides_alike() const override { return true; }
  void on_train_batch_end(Training& training) override {
    constexpr std::int64_t first = 5, last = 13;
    const std::int64_t batch = training.position().batch;
    if (batch == last) {
      instructions_a_step = static_cast<double>(counter().end()) / (last - first);
    } else if (batch == first) {
      counter().begin();
    }
  }
};

}  // namespace

TEST_CASE("the runtime's own instructions of a step are few and do not grow") {
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::cout << "skipped: the numbers are those of an optimized build\n";
  return;
#endif
  if (!counter().why_not().empty()) {
    std::cout << "skipped: " << counter().why_not() << "\n";
    return;
  }
  add_device_kind({.kind = "uncounted"}, [](const DeviceOptions& options) {
    return std::make_unique<UncountedDevice>(options);
  });
  DeviceMesh mesh = alone();
  const auto input = Input({6});
  auto x = Dense({.name = "d1", .units = 7, .activation = Activation::relu})(input);
  x = Dense({.name = "d2", .units = 7, .activation = Activation::relu})(x);
  x = Dense({.name = "d3", .units = 3})(x);
  Model model(input, x, DataParallel(mesh), {.device = "uncounted"});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = Adam(),
                 .metrics = {SparseCategoricalAccuracy()}});
  constexpr std::int64_t rows = 4 * 16;
  std::vector<float> classes;
  for (std::int64_t row = 0; row < rows; ++row) classes.push_back(static_cast<float>(row % 3));
  std::vector<Array> arrays{Array("x", random_floats(rows * 6, 1), {rows, 6}),
                            Array("t", classes, {rows}, FieldRole::target)};
  const auto counted = std::make_shared<CountedSteps>();
  (void)model.fit(std::make_shared<ArraySource>(std::move(arrays)), {.batch_size = 4,
                                                                     .shuffle = false,
                                                                     .callbacks = {counted},
                                                                     .verbose = Verbosity::silent,
                                                                     .prefetch = false});
  const double a_step = counted->instructions_a_step;
  std::cout << "instructions outside of kernels: " << a_step << " a step\n";
  CHECK(a_step > 0);
  CHECK(a_step < 1.25 * recorded);
}

}  // namespace meshwork::step_instructions_test
