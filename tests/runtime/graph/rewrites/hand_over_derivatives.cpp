// What is one kernel: forward, what follows a product; backward, the gradients that come along with
// products. Numbers under every layout are those of tests/layers/spread.cpp; here it is counted
// what a step is made of.
#include "runtime/device/kernels/activation.h"
#include "runtime/device/kernels/precision.h"

#include <algorithm>
#include <string>
#include <vector>

#include "layers/activation.h"
#include "layers/add.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/flatten.h"
#include "runtime/train/engine/engine.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/apart_device.h"
#include "tests/support/plans.h"

namespace meshwork::hand_over_derivatives_test {

using namespace meshwork::test;

namespace {

// The activation whose derivative is left to those who use the output of `path`.
Activation left_of(const Plan& plan, const std::string& path) {
  return plan.tensors[static_cast<std::size_t>(plan.graph->find(path + "/output"))].gradient_before;
}

Plan plan_of(const Trained& training, const LayoutEntries& layouts = {},
             const std::vector<MeshAxis>& axes = {{"data", 2}, {"model", 2}}) {
  return test::plan_of(training, mesh_of(axes), layouts, "data", 8);
}

// The kernels of a step on this rank, alone.
std::vector<std::string> kernels_of(const Trained& training, Device& device,
                                    Mode mode = Mode::train,
                                    Precision precision = Precision::float32) {
  DeviceMesh mesh = alone();
  const auto transport = make_transport("auto", mesh.all(), &device.queues());
  Engine engine(mesh, device, *transport, test::plan_of(training, mesh.shape(), {}, "", 8), 1,
                training.optimizer.update_rule(), nullptr, nullptr, precision);
  return engine.step({mode, 8}).program().labels();
}

std::int64_t count(const std::vector<std::string>& labels, const std::string& what) {
  return std::count_if(labels.begin(), labels.end(), [&](const std::string& label) {
    return label.find(what) != std::string::npos;
  });
}

// 12 -> 9 -> 8 -> 7 -> 4
Trained chain() {
  return {.build = [](const SymbolicTensor& x) {
    auto y = Dense({.name = "relu", .units = 9, .activation = Activation::relu})(x);
    y = Dense({.name = "gelu", .units = 8, .activation = Activation::gelu})(y);
    y = Dense({.name = "tanh", .units = 7, .activation = Activation::tanh})(y);
    return Dense({.name = "last", .units = 4})(y);
  }};
}

}  // namespace

TEST_CASE("who uses a value takes the derivative of the activation that made it") {
  const Plan plan = plan_of(chain());
  CHECK(left_of(plan, "relu") == Activation::relu);
  CHECK(left_of(plan, "gelu") == Activation::gelu);
  CHECK(left_of(plan, "tanh") == Activation::tanh);
  CHECK(left_of(plan, "last") == Activation::linear);
  // Taken at the value, but for gelu, which is taken at what the activation was applied to.
  const auto at = [&](const std::string& path) {
    const TensorId id = plan.graph->find(path + "/output");
    return plan.tensors[static_cast<std::size_t>(id)].derivative_at - id;
  };
  CHECK(at("relu") == 0);
  CHECK(at("gelu") != 0);
}

TEST_CASE("a derivative is not handed over where others use the value, or it is moved or cut") {
  const auto relu = [](const std::string& name, std::int64_t units) {
    return Dense({.name = name, .units = units, .activation = Activation::relu});
  };
  const Plan twice = plan_of({.build = [&](const SymbolicTensor& x) {
    const auto y = relu("d1", 6)(x);
    return Add()({relu("d2", 4)(y), Dense({.name = "d3", .units = 4})(y)});
  }});
  CHECK(left_of(twice, "d1") == Activation::linear);
  CHECK(left_of(twice, "d2") == Activation::linear);  // a sum takes none

  const Plan dropped = plan_of({.build = [&](const SymbolicTensor& x) {
    return Dense({.name = "d2", .units = 4})(Dropout({.rate = 0.5})(relu("d1", 6)(x)));
  }});
  CHECK(left_of(dropped, "d1") == Activation::linear);

  const Trained two{.build = [&](const SymbolicTensor& x) {
    return Dense({.name = "d2", .units = 4})(relu("d1", 6)(x));
  }};
  CHECK(left_of(plan_of(two), "d1") == Activation::relu);
  // Columns, then rows: both hold the same part of the units, and so do both where d2's result is
  // what is split, whose input's gradient is a partial sum.
  CHECK(left_of(plan_of(two, {{"d1/kernel", {unsharded, "model"}},
                              {"d1/bias", {"model"}},
                              {"d2/kernel", {"model", unsharded}}}),
                "d1") == Activation::relu);
  CHECK(left_of(plan_of(two, {{"d2/kernel", {unsharded, "model"}}, {"d2/bias", {"model"}}}),
                "d1") == Activation::relu);
  // Made in parts that are gathered for use.
  CHECK(left_of(plan_of(two, {{"d1/kernel", {unsharded, "model"}},
                              {"d1/bias", {"model"}},
                              {"d2/kernel", {unsharded, "model"}},
                              {"d2/bias", {"model"}}}),
                "d1") == Activation::linear);

  // A convolution takes windows of its input; a product of a flattened image takes the derivative
  // of the one in front.
  const Plan images = plan_of(
      {.sample = {9, 8, 2}, .build = [](const SymbolicTensor& x) {
         const auto filtered = [](const std::string& name) {
           return Conv2D(
               {.name = name, .filters = 3, .kernel_size = 3, .activation = Activation::relu});
         };
         return Dense({.name = "d", .units = 4})(Flatten()(filtered("c2")(filtered("c1")(x))));
       }});
  CHECK(left_of(images, "c1") == Activation::linear);
  CHECK(left_of(images, "c2") == Activation::relu);
}

TEST_CASE("gradients of activations and of biases are no kernels of their own behind a product") {
  const auto device = make_device({.kind = "cpu"});
  const std::vector<std::string> labels = kernels_of(chain(), *device);
  INFO(Catch::StringMaker<std::vector<std::string>>::convert(labels));
  CHECK(count(labels, ": column sum") == 0);
  CHECK(count(labels, ": relu gradient") + count(labels, ": gelu gradient") +
            count(labels, ": tanh gradient") ==
        0);
  // One for each layer; one less, since nothing wants the gradient of the input; forward.
  CHECK(count(labels, "with column sums") == 4);
  CHECK(count(labels, "matmul nt") == 3);
  CHECK(count(labels, "relu gradient") == 1);
  CHECK(count(labels, "gelu gradient") == 1);
  CHECK(count(labels, "tanh gradient") == 1);
  CHECK(count(labels, "matmul") == 4 + 4 + 3);
  // No masks, which a processor has no use for.
  CHECK(count(labels, " a mask") == 0);

  // Dropout, which multiplies too, takes none; then it is a kernel again.
  const std::vector<std::string> dropped = kernels_of(
      {.build =
           [](const SymbolicTensor& x) {
             auto y = Dense({.name = "d1", .units = 9, .activation = Activation::relu})(x);
             return Dense({.name = "d2", .units = 4})(Dropout({.rate = 0.5})(y));
           }},
      *device);
  CHECK(count(dropped, ": relu gradient") == 1);
}

TEST_CASE("where products take relu's derivative from a mask, forward writes it in training") {
  const auto device = make_apart_device({});
  for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
    const std::vector<std::string> trains = kernels_of(chain(), *device, Mode::train, precision);
    INFO(Catch::StringMaker<std::vector<std::string>>::convert(trains));
    CHECK(count(trains, "to a mask") == 1);
    CHECK(count(trains, "relu gradient from a mask") == 1);
  }
  CHECK(count(kernels_of(chain(), *device, Mode::evaluate), "mask") == 0);
}

TEST_CASE("an activation without a product in front hands over its derivative as well") {
  const auto device = make_device({.kind = "cpu"});
  const Trained sum{.build = [](const SymbolicTensor& x) {
    auto y = Add()({Dense({.name = "a", .units = 6})(x), Dense({.name = "b", .units = 6})(x)});
    y = ActivationLayer({.name = "relu", .activation = Activation::relu})(y);
    return Dense({.name = "d", .units = 4})(y);
  }};
  CHECK(left_of(plan_of(sum), "relu") == Activation::relu);
  const std::vector<std::string> labels = kernels_of(sum, *device);
  CHECK(count(labels, ": relu gradient") == 0);
  CHECK(count(labels, "relu gradient") == 1);
}

TEST_CASE("gradients that come along are those of one rank, however the layers are spread") {
  const std::int64_t ranks = Communicator::world().size();
  constexpr std::int64_t rows = 22;
  const std::vector<float> features = random_floats(rows * 12, 1);
  const std::vector<float> targets = random_floats(rows * 4, 2);
  const auto trained = [&](DeviceMesh& mesh, const LayoutEntries& layouts,
                           const std::string& batch_axis) {
    const auto x = Input({12});
    Model model(x, chain().build(x), spread_over(mesh, layouts, batch_axis),
                {.seed = 4, .check_plan = true});
    model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.5})});
    for (int step = 0; step < 3; ++step) {
      (void)model.train_step({.rows = rows, .inputs = {features}, .targets = {targets}});
    }
    return variables_of(model);
  };
  DeviceMesh self = alone();
  const auto expected = trained(self, {}, "alone");
  const LayoutEntries units{{"(relu|tanh)/kernel", {unsharded, "model"}},
                            {"(relu|tanh)/bias", {"model"}},
                            {"(gelu|last)/kernel", {"model", unsharded}}};
  const LayoutEntries sharded{{".*/kernel", {"data", unsharded}}, {".*/bias", {"data"}}};
  const LayoutEntries partial{{"gelu/kernel", {unsharded, "model"}}, {"gelu/bias", {"model"}}};
  for (std::int64_t data = 1; data <= ranks; ++data) {
    if (ranks % data != 0) continue;
    DeviceMesh mesh({{"data", data}, {"model", ranks / data}});
    for (const LayoutEntries& layouts : {LayoutEntries{}, units, sharded, partial}) {
      INFO(to_string(mesh.shape()) << ", " << to_string(layouts));
      const auto found = trained(mesh, layouts, "data");
      for (std::size_t v = 0; v < expected.size(); ++v) {
        CHECK(difference(found[v], expected[v], 1e-5) == "");
      }
    }
  }
}

}  // namespace meshwork::hand_over_derivatives_test
