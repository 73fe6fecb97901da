// A step in which operations are one gives the bits of a step in which they stand apart: dropout
// behind relu, bytes that are scaled where they are converted, softmax, loss and metrics.
#include <vector>

#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/flatten.h"
#include "layers/rescaling.h"
#include "layers/reshape.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/byte_images.h"
#include "tests/support/one_rank.h"

namespace meshwork::fused_steps_test {

using namespace meshwork::test;

namespace {

std::shared_ptr<const Source> pixels() {
  return byte_images(45, {6, 5, 2}, 7, 3);
}

/// Changes nothing, and is no part of anything.
SymbolicTensor stands_between(const SymbolicTensor& x, const Shape& shape) {
  return Reshape({.target_shape = shape})(x);
}

struct Outcome {
  std::vector<std::vector<float>> variables;
  std::vector<double> losses;
  Logs evaluated;
};

Outcome trained(bool apart) {
  const auto between = [apart](const SymbolicTensor& x, const Shape& shape) {
    return apart ? stands_between(x, shape) : x;
  };
  DeviceMesh mesh({{"data", -1}});
  const auto input = Input({6, 5, 2});
  auto x = Rescaling({.scale = 1.0 / 255, .offset = -0.3})(between(input, {6, 5, 2}));
  x = Conv2D({.name = "c1", .filters = 4, .kernel_size = 3, .activation = Activation::relu})(x);
  x = Dropout({.name = "drop1", .rate = 0.3})(between(x, {4, 3, 4}));
  x = Flatten()(x);
  x = Dense({.name = "d1", .units = 20, .activation = Activation::relu})(x);
  x = Dropout({.name = "drop2", .rate = 0.4})(between(x, {20}));
  x = Dense({.name = "d2", .units = 7})(x);
  Model model(input, x, DataParallel(mesh), {.seed = 6});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = Adam(),
                 .metrics = {SparseCategoricalAccuracy(),
                             SparseTopKCategoricalAccuracy({.k = 3, .name = "top"})}});
  const History history =
      model.fit(pixels(), {.epochs = 3, .batch_size = 10, .verbose = Verbosity::silent});
  return {variables_of(model), history.at("loss"), model.evaluate(pixels(), {.batch_size = 10})};
}

}  // namespace

TEST_CASE("operations that are one train to the bits of operations that stand apart") {
  const Outcome expected = trained(true), found = trained(false);
  CHECK(found.variables == expected.variables);
  CHECK(found.losses == expected.losses);
  CHECK(difference(found.evaluated, expected.evaluated, 0) == "");
}

}  // namespace meshwork::fused_steps_test
