// Training on a device that works beside the host: how far the host goes ahead, and that nothing is
// lost by it.
#include <array>
#include <memory>
#include <vector>

#include "layers/dense.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/engine/feed_ring.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/added_device.h"
#include "tests/support/apart_device.h"
#include "tests/support/one_rank.h"

namespace meshwork::late_test {

using namespace meshwork::test;

namespace {

/// The queues of the last device of the kind "watched", which is apart.
DeviceQueues* watched_queues = nullptr;

struct OnWatchedDevice {
  AddedDevice watched{apart_traits("watched"), [](const DeviceOptions& options) {
                        std::unique_ptr<Device> device = make_apart_device(options);
                        watched_queues = &device->queues();
                        return device;
                      }};
};

/// Looks, at the end of each batch, whether the device is done with the one before, and reads the
/// loss at every `every`-th.
class Looks final : public Callback {
 public:
  explicit Looks(std::int64_t every) : every_(every) {}
  std::string class_name() const override { return "Looks"; }
  void on_train_batch_end(Training& training) override {
    const std::int64_t batch = training.position().batch;
    if (every_ > 0 && batch % every_ == 0) losses.push_back(training.logs().at("loss"));
    if (mark_ != nullptr && !mark_->reached()) ++behind;
    mark_ = watched_queues->make_mark();
    watched_queues->kernels().record(*mark_);
  }
  void on_train_end(Training& training) override {
    (void)training;
    mark_.reset();
  }

  std::int64_t behind = 0;
  std::vector<double> losses;

 private:
  std::int64_t every_;
  std::unique_ptr<Mark> mark_;
};

constexpr std::int64_t batches = 40;

std::shared_ptr<ArraySource> samples() {
  constexpr std::int64_t rows = 8 * batches;
  std::vector<float> classes;
  for (std::int64_t row = 0; row < rows; ++row) classes.push_back(static_cast<float>(row % 3));
  std::vector<Array> arrays{Array("x", random_floats(rows * 200, 1), {rows, 200}),
                            Array("t", classes, {rows}, FieldRole::target)};
  return std::make_shared<ArraySource>(std::move(arrays));
}

struct Run {
  std::shared_ptr<Looks> looks;
  History history;
  Logs evaluated;
  std::vector<float> predicted;
  std::vector<std::vector<float>> variables;
};

Run trained(const std::string& device, std::int64_t every,
            DataOnDevice on_device = DataOnDevice::never) {
  DeviceMesh mesh = alone();
  const auto x = Input({200});
  const auto y = Dense({.units = 5, .activation = Activation::relu})(x);
  Model model(x, Dense({.units = 3, .activation = Activation::softmax})(y), spread_over(mesh),
              {.device = device});
  model.compile({.loss = SparseCategoricalCrossentropy(),
                 .optimizer = Adam({.learning_rate = 0.01}),
                 .metrics = {SparseCategoricalAccuracy()}});
  Run run;
  const auto data = samples();
  FitOptions options{.epochs = 2,
                     .batch_size = 8,
                     .validation = data,
                     .validation_batch_size = 24,
                     .verbose = Verbosity::silent,
                     .data_on_device = on_device};
  if (device == "watched") {
    run.looks = std::make_shared<Looks>(every);
    options.callbacks = {run.looks};
  }
  run.history = model.fit(data, options);
  run.evaluated = model.evaluate(data, {.batch_size = 32});
  run.predicted = model.predict(data, {.batch_size = 100});
  run.variables = variables_of(model);
  return run;
}

}  // namespace

TEST_CASE_METHOD(
    OnWatchedDevice,
    "the device is behind the host at every step, and the numbers are those of the CPU") {
  const Run expected = trained("cpu", 0);
  for (const DataOnDevice on_device : {DataOnDevice::never, DataOnDevice::automatic}) {
    const Run found = trained("watched", 0, on_device);
    // The first step of an epoch has none before it: between epochs all is waited for.
    CHECK(found.looks->behind == 2 * (batches - 1));
    CHECK(found.history.history == expected.history.history);
    CHECK(found.evaluated == expected.evaluated);
    CHECK(found.predicted == expected.predicted);
    CHECK(found.variables == expected.variables);
  }
}

TEST_CASE_METHOD(OnWatchedDevice,
                 "who asks for the loss gets that of all steps so far, and waits for them") {
  const Run every = trained("watched", 1);
  const Run some = trained("watched", 9);
  CHECK(every.looks->behind == 0);
  REQUIRE(every.looks->losses.size() == 2 * batches);
  for (std::size_t i = 0; i < some.looks->losses.size(); ++i) {
    const std::size_t of_epoch = (batches + 8) / 9;
    CHECK(some.looks->losses[i] == every.looks->losses[i / of_epoch * batches + i % of_epoch * 9]);
  }
  CHECK(some.history.history == every.history.history);
}

TEST_CASE_METHOD(OnWatchedDevice,
                 "what is fed in each step is there for its kernels, the small and the large") {
  const auto device = make_apart_device({});
  for (const std::int64_t count : {2, 5000}) {
    const Memory place = device->allocate(count * 4);
    constexpr std::int64_t steps = 10;
    const Memory seen = device->queues().allocate_pinned(steps * count * 4);
    FeedRing ring(*device, place.data(), count * 4);
    const auto before = device->queues().make_mark();
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::vector<float> values(static_cast<std::size_t>(count), static_cast<float>(step));
      ring.feed(values.data());
      device->queues().kernels().start_copy(seen.bytes_at(step * count * 4), place.data(),
                                            count * 4);
      if (step == 0) device->queues().kernels().record(*before);
      // The host is not held before it is three steps ahead.
      if (step < 3) CHECK_FALSE(before->reached());
    }
    device->synchronize();
    const auto* values = static_cast<const float*>(seen.data());
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < steps * count; ++i) {
      wrong += values[i] == static_cast<float>(i / count) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace meshwork::late_test
