// Training on the device under test gives the numbers of training on one processor: the same within
// rounding in float32, within a band where products are rounded on the device.
//
// In float32 devices add up in other orders, and their exponentials differ in the last places:
// about 1e-7 of a value in each kernel. Adam divides by the root of squares, which lets small
// gradients count as much as large ones: after some twenty updates weights differ by 1e-5 and less
// of the largest.
#include <cmath>
#include <string>
#include <vector>

#include "layers/batch_normalization.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/flatten.h"
#include "layers/pooling.h"
#include "layers/rescaling.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/device/kernels/precision.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/byte_images.h"
#include "tests/support/one_rank.h"

namespace meshwork::device_equality_test {

using namespace meshwork::test;

namespace {

std::shared_ptr<const Source> images(std::int64_t rows, std::uint64_t seed) {
  return byte_images(rows, {9, 8, 2}, 7, seed);
}

SymbolicTensor dense_net(const SymbolicTensor& x) {
  auto y = Dense({.name = "d1", .units = 70, .activation = Activation::relu})(Flatten()(x));
  y = Dropout({.name = "drop", .rate = 0.2})(y);
  y = Dense({.name = "d2", .units = 66, .activation = Activation::gelu})(y);
  return Dense({.name = "d3", .units = 7})(y);
}

SymbolicTensor convolutional_net(const SymbolicTensor& x) {
  auto y = Conv2D({.name = "c1",
                   .filters = 8,
                   .kernel_size = 3,
                   .padding = Padding::same,
                   .activation = Activation::relu})(x);
  y = BatchNormalization({.name = "b1"})(y);
  y = MaxPooling2D({.name = "p1", .pool_size = 2})(y);
  y = Conv2D({.name = "c2", .filters = 6, .kernel_size = 3, .strides = 2})(y);
  return Dense({.name = "d1", .units = 7})(Flatten()(y));
}

struct Outcome {
  History history;
  Logs evaluated;
  std::vector<std::vector<float>> variables;
};

Outcome trained(SymbolicTensor (*net)(const SymbolicTensor&), const std::string& device,
                const Optimizer& optimizer, Precision precision = Precision::float32) {
  DeviceMesh mesh = alone();
  const auto x = Input({9, 8, 2});
  Model model(x, net(Rescaling({.scale = 1.0 / 255})(x)), spread_over(mesh),
              {.seed = 6, .device = device, .precision = precision});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = optimizer,
                 .metrics = {SparseCategoricalAccuracy()}});
  Outcome outcome;
  outcome.history = model.fit(
      images(90, 5),
      {.epochs = 4, .batch_size = 16, .validation = images(33, 8), .verbose = Verbosity::silent});
  outcome.evaluated = model.evaluate(images(33, 8), {.batch_size = 10});
  outcome.variables = variables_of(model);
  return outcome;
}

void check_losses(const Outcome& found, const Outcome& expected, double tolerance) {
  for (const char* name : {"loss", "val_loss"}) {
    for (std::size_t epoch = 0; epoch < expected.history.epoch.size(); ++epoch) {
      INFO(name << " of epoch " << epoch);
      CHECK(found.history.at(name)[epoch] ==
            Approx(expected.history.at(name)[epoch]).epsilon(tolerance));
    }
  }
}

}  // namespace

TEST_CASE("training on the device gives the numbers of training on a processor") {
  for (const auto net : {dense_net, convolutional_net}) {
    for (const Optimizer& optimizer :
         {Optimizer(SGD({.learning_rate = 0.05, .momentum = 0.9})), Optimizer(Adam())}) {
      INFO((net == dense_net ? "dense, " : "convolutional, ") << optimizer.class_name());
      const Outcome expected = trained(net, "cpu", optimizer);
      const Outcome found = trained(net, "auto", optimizer);
      check_losses(found, expected, 1e-4);
      CHECK(difference(found.evaluated, expected.evaluated, 1e-4) == "");
      for (std::size_t v = 0; v < expected.variables.size(); ++v) {
        CHECK(difference(found.variables[v], expected.variables[v], 1e-3) == "");
      }
    }
  }
}

TEST_CASE("in every precision that the device has, losses are those of float32 within a band") {
  const std::unique_ptr<Device> device = make_device({});
  for (const Precision precision : {Precision::tf32, Precision::bfloat16}) {
    if (precision == Precision::tf32 && !device->is_faster_in(precision)) continue;
    for (const auto net : {dense_net, convolutional_net}) {
      INFO(name_of(precision) << (net == dense_net ? ", dense" : ", convolutional"));
      const Optimizer sgd = SGD({.learning_rate = 0.05});
      const Outcome wide = trained(net, "cpu", sgd);
      const Outcome narrow = trained(net, "auto", sgd, precision);
      check_losses(narrow, wide, 0.03);
      // It is another arithmetic.
      CHECK(narrow.history.at("loss") != wide.history.at("loss"));
    }
  }
}

TEST_CASE("in bfloat16 the device gives the numbers of a processor within a narrower band") {
  for (const auto net : {dense_net, convolutional_net}) {
    const Optimizer sgd = SGD({.learning_rate = 0.05});
    check_losses(trained(net, "auto", sgd, Precision::bfloat16),
                 trained(net, "cpu", sgd, Precision::bfloat16), 5e-3);
  }
}

}  // namespace meshwork::device_equality_test
