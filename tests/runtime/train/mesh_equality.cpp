// The main test of everything: a run on any mesh equals the run on one rank.
//
// Every rank trains the same network twice: alone, on a mesh of itself, and with all others on the
// mesh under test. Initial weights are compared bit for bit. Losses, metrics and final weights are
// compared to float32 rounding: a sum of n products in another order differs by about sqrt(n) *
// 2^-24 relative to its terms, which for the at most 300 terms of these sums is 1e-6; thirty
// updates let such differences grow by less than a factor of 20, which gives the tolerance of 2e-5
// relative to a weight of order 1.
#include <algorithm>
#include <cmath>

#include "collectives/exchange.h"
#include "layers/activation.h"
#include "layers/add.h"
#include "layers/concatenate.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/flatten.h"
#include "layers/regularizers/l1_l2.h"
#include "layers/rescaling.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/byte_images.h"
#include "tests/support/catch.h"

namespace meshwork::mesh_equality_test {

namespace {

constexpr double tolerance = 2e-5;

using LayoutEntries = std::vector<std::pair<std::string, TensorLayout>>;

// Lengths that ranks divide, and lengths that they do not.
struct Sizes {
  std::string name;
  std::int64_t hidden, classes, rows, batch, validation;
};
const std::vector<Sizes> all_sizes{{"uneven", 13, 7, 130, 50, 61}, {"even", 16, 8, 128, 64, 64}};

struct Setting {
  std::string name;
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
};

// What a run leaves behind.
struct Outcome {
  std::vector<std::vector<float>> first;  // initial weights
  std::vector<std::vector<float>> last;
  History history;
  Logs evaluated;
  std::vector<float> predicted;
};

std::shared_ptr<const Source> samples(const Sizes& sizes, std::int64_t rows) {
  return test::byte_images(rows, {5, 3}, sizes.classes, 11);
}

// A branch, dropout and penalties.
SymbolicTensor network(const SymbolicTensor& input, const Sizes& sizes) {
  auto x = Flatten()(Rescaling({.scale = 1.0 / 255})(input));
  x = Dense({.name = "d1",
             .units = sizes.hidden,
             .activation = Activation::gelu,
             .kernel_regularizer = L1L2({.l1 = 1e-4f, .l2 = 1e-3f})})(x);
  x = Dropout({.name = "drop", .rate = 0.3})(x);
  const auto left =
      Dense({.name = "left", .units = sizes.hidden, .activation = Activation::relu})(x);
  const auto right = Dense(
      {.name = "right", .units = sizes.hidden, .activation = Activation::tanh, .use_bias = false})(
      x);
  x = Add({.name = "sum"})({left, right});
  x = Concatenate({.name = "both"})({x, left});
  return Dense({.name = "d2", .units = sizes.classes, .activation = Activation::softmax})(x);
}

Outcome train(DeviceMesh& mesh, const LayoutEntries& entries, const Sizes& sizes, bool clip) {
  LayoutMap layouts(mesh);
  for (const auto& [key, layout] : entries) {
    layouts.insert(key, layout);
  }
  const auto input = Input({5, 3});
  const auto output = network(input, sizes);
  Model model(input, output, ModelParallel(mesh, layouts), {.seed = 3, .check_plan = true});
  model.compile(
      {.loss = SparseCategoricalCrossentropy(),
       .optimizer = clip ? SGD({.learning_rate = 0.2, .momentum = 0.9, .global_clipnorm = 0.5})
                         : Adam({.learning_rate = 0.01}),
       .metrics = {SparseCategoricalAccuracy()}});
  Outcome outcome;
  for (const Variable& variable : model.graph().variables) {
    outcome.first.push_back(model.variable(variable.path));
  }
  // Uneven: two full batches and a short one.
  outcome.history =
      model.fit(samples(sizes, sizes.rows), {.epochs = 10,
                                             .batch_size = sizes.batch,
                                             .validation = samples(sizes, sizes.validation),
                                             .verbose = Verbosity::silent});
  for (const Variable& variable : model.graph().variables) {
    outcome.last.push_back(model.variable(variable.path));
  }
  outcome.evaluated = model.evaluate(samples(sizes, sizes.validation), {.batch_size = sizes.batch});
  outcome.predicted = model.predict(samples(sizes, sizes.validation), {.batch_size = sizes.batch});
  return outcome;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = a.size() == b.size() ? 0 : 1e30;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::abs(double{a[i]} - double{b[i]});
    largest = std::max(largest, std::isnan(difference) ? 1e30 : difference);
  }
  return largest;
}

void compare(const Outcome& one, const Outcome& many) {
  REQUIRE(one.first.size() == many.first.size());
  for (std::size_t v = 0; v < one.first.size(); ++v) {
    INFO("variable " << v);
    CHECK(one.first[v] == many.first[v]);
    CHECK(largest_difference(one.last[v], many.last[v]) < tolerance);
    CHECK(largest_difference(one.first[v], one.last[v]) > 1e-3);
  }
  REQUIRE(one.history.history.size() == many.history.history.size());
  for (const auto& [name, values] : one.history.history) {
    for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
      INFO(name << " of epoch " << epoch);
      CHECK(std::abs(values[epoch] - many.history.at(name)[epoch]) < tolerance);
    }
  }
  CHECK(std::abs(one.evaluated.at("loss") - many.evaluated.at("loss")) < tolerance);
  CHECK(largest_difference(one.predicted, many.predicted) < tolerance);
}

std::vector<Setting> settings(int ranks) {
  const LayoutEntries columns_rows{
      {"d1/kernel", {unsharded, "model"}},   {"d1/bias", {"model"}},
      {"left/kernel", {"model", unsharded}}, {"right/kernel", {unsharded, "model"}},
      {"d2/kernel", {unsharded, "model"}},   {"d2/output", {"data", unsharded}}};
  const LayoutEntries classes{{"d2/kernel", {unsharded, "model"}},
                              {"d2/bias", {"model"}},
                              {"d2/output", {"data", "model"}}};
  const LayoutEntries sharded{{".*/kernel", {"data", unsharded}}, {".*/bias", {"data"}}};
  std::vector<Setting> all;
  const auto mesh = [](std::int64_t data, std::int64_t model) {
    return std::vector<MeshAxis>{{"data", data}, {"model", model}};
  };
  for (std::int64_t data = 1; data <= ranks; ++data) {
    if (ranks % data != 0) {
      continue;
    }
    all.push_back({"replicated", mesh(data, ranks / data), {}});
    all.push_back({"columns and rows", mesh(data, ranks / data), columns_rows});
    all.push_back({"classes", mesh(data, ranks / data), classes});
    all.push_back({"fully sharded", mesh(data, ranks / data), sharded});
  }
  if (ranks % 4 == 0) {
    all.push_back({"several axes a dimension",
                   {{"data", ranks / 4}, {"x", 2}, {"y", 2}},
                   {{"d1/kernel", {"x", "y"}},
                    {"left/kernel", {unsharded, {"y", "x"}}},
                    {"d2/kernel", {{"x", "y"}, unsharded}},
                    {"d2/output", {{"data", "y"}, "x"}}}});
  }
  return all;
}

}  // namespace

TEST_CASE("a run on any mesh equals the run on one rank") {
  const Communicator world = Communicator::world();
  for (const Sizes& sizes : all_sizes) {
    for (const bool clip : {false, true}) {
      DeviceMesh alone({{"data", 1}}, Communicator::self());
      const Outcome one = train(alone, {}, sizes, clip);
      CHECK(one.history.at("loss").back() < one.history.at("loss").front());
      for (const Setting& setting : settings(world.size())) {
        DeviceMesh mesh(setting.axes);
        INFO(sizes.name << ", " << setting.name << " on " << to_string(mesh.shape())
                        << (clip ? ", clipped" : ""));
        compare(one, train(mesh, setting.layouts, sizes, clip));
      }
    }
  }
}

TEST_CASE("the same mesh twice gives the same bits") {
  const Communicator world = Communicator::world();
  const Setting setting = settings(world.size()).at(1);
  DeviceMesh mesh(setting.axes);
  const Outcome a = train(mesh, setting.layouts, all_sizes[0], false);
  const Outcome b = train(mesh, setting.layouts, all_sizes[0], false);
  CHECK(a.last == b.last);
  CHECK(a.history.history == b.history.history);
}

}  // namespace meshwork::mesh_equality_test
