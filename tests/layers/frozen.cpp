// Frozen layers: a step leaves them as they are, and trains the others as if all were trained.
#include "collectives/joined_text.h"
#include "layers/batch_normalization.h"
#include "layers/dense.h"
#include "layers/regularizers/l1_l2.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::frozen_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t rows = 12, features = 5;

struct Step {
  double loss = 0;
  std::vector<std::string> paths;
  std::vector<std::vector<float>> before, after;
};

// The first step of d1, then the block of d2 and d3, of which those in `frozen` are.
Step first_step(DeviceMesh& mesh, const LayoutEntries& layouts, const std::string& batch_axis,
                const std::vector<std::string>& frozen, float l2 = 0) {
  const auto trained = [&](const std::string& name) {
    return std::find(frozen.begin(), frozen.end(), name) == frozen.end();
  };
  const auto dense = [&](const std::string& name, std::int64_t units) {
    return Dense({.name = name,
                  .units = units,
                  .activation = Activation::tanh,
                  .kernel_regularizer = L2(name == "d1" ? l2 : 0),
                  .trainable = trained(name)});
  };
  SharedLayer block = Sequential({dense("d2", 7), dense("d3", 3)}, "block");
  block.layer().set_trainable(trained("block"));
  const auto x = Input({features});
  Model model(x, block(dense("d1", 6)(x)), spread_over(mesh, layouts, batch_axis),
              {.seed = 1, .check_plan = true});
  model.compile(
      {.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.1, .momentum = 0.9})});
  Step step;
  for (const Variable& variable : model.graph().variables) step.paths.push_back(variable.path);
  step.before = variables_of(model);
  step.loss =
      model.train_step({rows, {random_floats(rows * features, 1)}, {random_floats(rows * 3, 2)}})
          .at("loss");
  step.after = variables_of(model);
  return step;
}

}  // namespace

TEST_CASE("a step leaves frozen layers as they are and trains the others as ever") {
  const int ranks = Communicator::world().size();
  DeviceMesh single = alone();
  const Step all = first_step(single, {}, "", {});
  const std::vector<std::vector<std::string>> choices{{"d1"},    {"d2"},       {"d3"},
                                                      {"block"}, {"d1", "d3"}, {"d1", "block"}};
  for (const auto& frozen : choices) {
    for (const LayoutEntries& layouts :
         {LayoutEntries{}, LayoutEntries{{"d1/kernel", {unsharded, "x"}}, {"d1/bias", {"x"}}},
          LayoutEntries{{".*kernel", {"x", unsharded}}},
          LayoutEntries{{"block/d2/kernel", {unsharded, "x"}}}}) {
      for (const std::string batch_axis : {"x", ""}) {
        INFO("frozen: " << joined_text(frozen, " and ") << ", " << to_string(layouts)
                        << ", batch axis: " << batch_axis);
        DeviceMesh mesh({{"x", ranks}});
        const Step step = first_step(mesh, layouts, batch_axis, frozen);
        CHECK(std::abs(step.loss - all.loss) < 1e-6);
        for (std::size_t v = 0; v < step.paths.size(); ++v) {
          INFO(step.paths[v]);
          const bool is_frozen =
              std::any_of(frozen.begin(), frozen.end(), [&](const std::string& name) {
                return step.paths[v].find(name + "/") != std::string::npos;
              });
          CHECK(step.before[v] == all.before[v]);
          if (is_frozen) {
            CHECK(step.after[v] == step.before[v]);
          } else {
            CHECK(step.after[v] != step.before[v]);
            CHECK(difference(step.after[v], all.after[v], 1e-6) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("variables are frozen by path and by regular expression") {
  DeviceMesh mesh({{"x", Communicator::world().size()}});
  const auto model = [&](std::vector<std::string> frozen) {
    const auto x = Input({features});
    const auto y = Dense({.name = "d2", .units = 1})(Dense({.name = "d1", .units = 4})(x));
    return Model(x, y, spread_over(mesh, {}, "x"), {.seed = 1, .frozen = std::move(frozen)});
  };
  Model some = model({"d1/kernel", ".*/bias"});
  some.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.1})});
  const auto before = variables_of(some);
  (void)some.train_step({rows, {random_floats(rows * features, 1)}, {random_floats(rows, 2)}});
  const auto after = variables_of(some);
  for (std::size_t v = 0; v < before.size(); ++v) {
    INFO(some.graph().variables[v].path);
    CHECK((after[v] == before[v]) == (some.graph().variables[v].path != "d2/kernel"));
  }
  CHECK_THROWS_WITH(model({"d1/kernl"}),
                    Catch::StartsWith("frozen \"d1/kernl\" matches nothing in the model") &&
                        Catch::Contains("did you mean \"kernel\"?"));
  CHECK_THROWS_WITH(model({"("}), Catch::Contains("is not a regular expression"));
}

TEST_CASE("a frozen layer adds no penalty to the loss") {
  DeviceMesh mesh({{"x", Communicator::world().size()}});
  const double without = first_step(mesh, {}, "x", {}).loss;
  CHECK(first_step(mesh, {}, "x", {}, 0.5f).loss > without + 0.1);
  CHECK(first_step(mesh, {}, "x", {"d1"}, 0.5f).loss == without);
}

TEST_CASE("a normalization in a frozen block normalizes by its moving statistics") {
  DeviceMesh mesh({{"x", Communicator::world().size()}});
  for (const bool trainable : {true, false}) {
    SharedLayer block = Sequential({BatchNormalization({.name = "norm"})}, "block");
    block.layer().set_trainable(trainable);
    const auto x = Input({features});
    Model model(x, Dense({.name = "d", .units = 1})(block(x)), spread_over(mesh, {}, "x"));
    model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0})});
    const std::vector<float> inputs = random_floats(rows * features, 3, 4, 9);
    const std::vector<float> targets(rows, 0);
    const double trained = model.train_step({rows, {inputs}, {targets}}).at("loss");
    const std::vector<float> means = model.variable("block/norm/moving_mean");
    if (trainable) {
      CHECK(means != std::vector<float>(features, 0));
    } else {
      CHECK(means == std::vector<float>(features, 0));
      CHECK(trained == Approx(model.evaluate_step({rows, {inputs}, {targets}}).at("loss")));
    }
  }
}

}  // namespace meshwork::frozen_test
