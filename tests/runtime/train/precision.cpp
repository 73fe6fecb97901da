// Products in bfloat16: the loss curve is that of float32 within a band, and every mesh gives the
// numbers of one rank within a narrower one.
//
// Why meshes differ by more than in float32. Ranks add up the terms of a sum in another order, so
// that a value differs by about 2^-24. Where it lies that near to the middle between two numbers of
// bfloat16, as one of some 2^15 values does, the next product takes it rounded the other way, and
// has there a difference of 2^-8 in one of its n factors, 2^-8 / n of a result: a rare event, but a
// large one. So most runs of these 30 updates differ by 1e-6 in the weights, as in float32, and
// some by 1e-3 in a few of them, and then by 1e-3 in the loss.
//
// The band about float32. Each factor is rounded by up to 2^-9 of itself, with signs as by chance.
// The losses of these runs differ by 0.1 to 0.2 percent, and by 1 where they have fallen to a
// third.
#include <algorithm>
#include <cmath>

#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/flatten.h"
#include "runtime/data/synthetic.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/device/kernels/precision.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/one_rank.h"

namespace meshwork::precision_test {

using namespace meshwork::test;

namespace {

constexpr double weight_tolerance = 5e-3;
constexpr double loss_tolerance = 2e-3;
constexpr double band = 0.02;  // of a loss, relative

std::shared_ptr<const Source> samples(std::int64_t rows) {
  return std::make_shared<SyntheticSource>(
      rows,
      std::vector<SyntheticField>{{.name = "pixels",
                                   .shape = {8, 8, 1},
                                   .type = ElementType::float32,
                                   .role = FieldRole::feature,
                                   .kind = SyntheticKind::uniform,
                                   .low = -1,
                                   .high = 1},
                                  {.name = "labels",
                                   .type = ElementType::uint8,
                                   .role = FieldRole::target,
                                   .kind = SyntheticKind::linear_classes,
                                   .classes = 7}},
      5);
}

struct Outcome {
  History history;
  std::vector<std::vector<float>> weights;
};

Outcome train(DeviceMesh& mesh, const LayoutEntries& layouts, Precision precision,
              const Optimizer& optimizer) {
  const auto input = Input({8, 8, 1});
  auto x = Conv2D({.name = "c1",
                   .filters = 6,
                   .kernel_size = 3,
                   .padding = Padding::same,
                   .activation = Activation::relu})(input);
  x = Dense({.name = "d1", .units = 65, .activation = Activation::relu})(Flatten()(x));
  x = Dense({.name = "d2", .units = 33, .activation = Activation::tanh})(x);
  x = Dense({.name = "d3", .units = 7})(x);
  Model model(input, x, spread_over(mesh, layouts),
              {.seed = 3, .precision = precision, .check_plan = true});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = optimizer,
                 .metrics = {SparseCategoricalAccuracy()}});
  Outcome outcome;
  outcome.history = model.fit(
      samples(200),
      {.epochs = 6, .batch_size = 40, .validation = samples(61), .verbose = Verbosity::silent});
  for (const Variable& variable : model.graph().variables) {
    outcome.weights.push_back(model.variable(variable.path));
  }
  return outcome;
}

double largest_difference(const Outcome& a, const Outcome& b) {
  double largest = a.weights.size() == b.weights.size() ? 0 : 1e30;
  for (std::size_t v = 0; v < std::min(a.weights.size(), b.weights.size()); ++v) {
    REQUIRE(a.weights[v].size() == b.weights[v].size());
    for (std::size_t i = 0; i < a.weights[v].size(); ++i) {
      const double difference = std::abs(double{a.weights[v][i]} - double{b.weights[v][i]});
      largest = std::max(largest, std::isnan(difference) ? 1e30 : difference);
    }
  }
  return largest;
}

}  // namespace

TEST_CASE("in bfloat16 a run on any mesh equals the run on one rank within a band") {
  const int ranks = Communicator::world().size();
  DeviceMesh itself({{"data", 1}}, Communicator::self());
  const Optimizer sgd = SGD({.learning_rate = 0.1});
  const Outcome one = train(itself, {}, Precision::bfloat16, sgd);
  const LayoutEntries columns_rows{{"c1/kernel", {unsharded, unsharded, unsharded, "model"}},
                                   {"d1/kernel", {unsharded, "model"}},
                                   {"d2/kernel", {"model", unsharded}}};
  for (const auto& [data, model] : {std::pair{ranks, 1}, {1, ranks}, {ranks / 2, 2}}) {
    if (data * model != ranks) continue;
    DeviceMesh mesh({{"data", data}, {"model", model}});
    INFO(data << " by " << model);
    const Outcome many =
        train(mesh, model == 1 ? LayoutEntries{} : columns_rows, Precision::bfloat16, sgd);
    INFO("weights differ by up to " << largest_difference(one, many));
    CHECK(largest_difference(one, many) < weight_tolerance);
    for (const char* name : {"loss", "val_loss"}) {
      for (std::size_t epoch = 0; epoch < one.history.epoch.size(); ++epoch) {
        CHECK(std::abs(one.history.at(name)[epoch] - many.history.at(name)[epoch]) <
              loss_tolerance);
      }
    }
  }
  DeviceMesh mesh({{"data", ranks}});
  CHECK(largest_difference(one, train(mesh, {{"d[123]/kernel", {"data", unsharded}}},
                                      Precision::bfloat16, sgd)) < weight_tolerance);
}

TEST_CASE("the loss curve in bfloat16 is that of float32 within a band, and its numbers are not") {
  DeviceMesh mesh({{"data", -1}});
  const std::vector<Optimizer> optimizers{SGD({.learning_rate = 0.05, .momentum = 0.9}),
                                          Adam({.learning_rate = 2e-3})};
  for (const Optimizer& optimizer : optimizers) {
    const Outcome wide = train(mesh, {}, Precision::float32, optimizer);
    const Outcome narrow = train(mesh, {}, Precision::bfloat16, optimizer);
    CHECK(narrow.history.at("loss").back() < 0.7 * narrow.history.at("loss").front());
    CHECK(largest_difference(wide, narrow) > 1e-5);
    for (const char* name : {"loss", "val_loss"}) {
      for (std::size_t epoch = 0; epoch < wide.history.epoch.size(); ++epoch) {
        INFO(name << " of epoch " << epoch << ", " << optimizer.class_name());
        CHECK(narrow.history.at(name)[epoch] == Approx(wide.history.at(name)[epoch]).epsilon(band));
      }
    }
  }
}

TEST_CASE("the same run in bfloat16 twice gives the same bits") {
  DeviceMesh mesh({{"data", -1}});
  const Outcome a = train(mesh, {}, Precision::bfloat16, Adam());
  const Outcome b = train(mesh, {}, Precision::bfloat16, Adam());
  CHECK(a.weights == b.weights);
  CHECK(a.history.history == b.history.history);
}

}  // namespace meshwork::precision_test
