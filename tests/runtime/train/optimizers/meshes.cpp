// Every optimizer, on every mesh: weights end where they end on one rank.
//
// Batches are split, kernels are split, and all that is trained is split over all ranks, so that
// slots lie in memory of one's own, in one copy for ranks that share memory, and in blocks.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "layers/activation.h"
#include "layers/dense.h"
#include "runtime/config/load.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/pages.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/adadelta.h"
#include "runtime/train/optimizers/adafactor.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/ftrl.h"
#include "runtime/train/optimizers/lamb.h"
#include "runtime/train/optimizers/lion.h"
#include "runtime/train/optimizers/muon.h"
#include "runtime/train/optimizers/nadam.h"
#include "runtime/train/optimizers/rmsprop.h"
#include "runtime/train/optimizers/schedule_free_adamw.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::optimizers_on_meshes_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t rows = 11, features = 6, hidden = 9, outputs = 4;

// Those of the catalog, and more with options of their own.
std::vector<Optimizer> every_optimizer() {
  std::vector<Optimizer> optimizers{
      SGD({.learning_rate = 0.1, .momentum = 0.9}),
      Adam({.learning_rate = 0.01, .amsgrad = true}),
      AdamW({.learning_rate = 0.01,
             .weight_decay = 0.5,
             .exclude_from_weight_decay = {"bias", "^d2"}}),
      RMSprop({.learning_rate = 0.01, .momentum = 0.5, .centered = true}),
      Adadelta({.learning_rate = 1}),
      Nadam({.learning_rate = 0.01, .weight_decay = 0.01}),
      Lion({.learning_rate = 0.01, .clipnorm = 0.1}),
      Ftrl({.learning_rate = 0.1, .global_clipnorm = 0.5}),
      Lamb({.learning_rate = 0.01, .weight_decay = 0.1}),
      Lamb({.learning_rate = 0.01, .global_clipnorm = 0.5}),
      Muon({.learning_rate = 0.01, .global_clipnorm = 0.5}),
      ScheduleFreeAdamW({.learning_rate = 0.01, .warmup_steps = 3}),
      Adafactor({.learning_rate = 0.1, .weight_decay = 0.1}),
      Adafactor({.learning_rate = 0.1, .clip_threshold = 0.5, .global_clipnorm = 0.5})};
  Catalog catalog;
  add_runtime(catalog);
  for (const auto& [name, entry] : catalog.all<Optimizer>()) {
    const std::string text = name + ": {learning_rate: 0.01}";
    optimizers.push_back(catalog.make<Optimizer>(parse_config(text, name)));
  }
  return optimizers;
}

Model network(DeviceMesh& mesh, const LayoutEntries& layouts, const Optimizer& optimizer) {
  const auto input = Input({features});
  auto y = Dense({.name = "d1", .units = hidden, .activation = Activation::tanh})(input);
  y = Dense({.name = "d2", .units = outputs})(y);
  Model model(input, y, spread_over(mesh, layouts), {.seed = 5, .check_plan = true});
  model.compile({.loss = MeanSquaredError(), .optimizer = optimizer});
  return model;
}

// After ten steps.
std::vector<std::vector<float>> trained(DeviceMesh& mesh, const LayoutEntries& layouts,
                                        const Optimizer& optimizer) {
  Model model = network(mesh, layouts, optimizer);
  for (unsigned step = 0; step < 10; ++step) {
    const std::vector<float> x = random_floats(rows * features, 10 + step);
    const std::vector<float> t = random_floats(rows * outputs, 30 + step);
    (void)model.train_step({.rows = rows, .inputs = {x}, .targets = {t}});
  }
  return variables_of(model);
}

}  // namespace

TEST_CASE("every optimizer trains on every mesh as on one rank") {
  const int ranks = Communicator::world().size();
  const LayoutEntries split{{"d1/kernel", {unsharded, "model"}},
                            {"d1/bias", {"model"}},
                            {"d2/kernel", {"model", unsharded}}};
  const std::vector<std::pair<std::vector<MeshAxis>, LayoutEntries>> spreads{
      {{{"data", ranks}}, {}},
      {{{"data", 1}, {"model", ranks}}, split},
      {{{"data", ranks}}, {{".*/kernel", {"data", unsharded}}, {".*/bias", {"data"}}}}};
  for (const Optimizer& optimizer : every_optimizer()) {
    DeviceMesh one = alone();
    const auto expected = trained(one, {}, optimizer);
    for (const auto& [axes, layouts] : spreads) {
      DeviceMesh mesh(axes);
      INFO(optimizer.class_name() << ", " << to_string(layouts) << " on "
                                  << to_string(mesh.shape()));
      const auto found = trained(mesh, layouts, optimizer);
      REQUIRE(found.size() == expected.size());
      for (std::size_t v = 0; v < found.size(); ++v) {
        // Sums of 11 rows in another order differ by 1e-7; where an optimizer divides by the root
        // of small squares, that grows, over ten steps.
        CHECK(difference(found[v], expected[v], 2e-5) == "");
      }
    }
  }
}

TEST_CASE("Lamb's steps are as long as whole variables, split or not, by the rate") {
  const int ranks = Communicator::world().size();
  const LayoutEntries split{{".*/kernel", {unsharded, "model"}}, {"d1/bias", {"model"}}};
  DeviceMesh mesh(std::vector<MeshAxis>{{"data", 1}, {"model", ranks}});
  constexpr double rate = 0.25, epsilon = 1e-2;
  const auto after_a_step = [&](const Optimizer& optimizer) {
    Model model = network(mesh, split, optimizer);
    const std::vector<float> x = random_floats(rows * features, 1);
    const std::vector<float> t = random_floats(rows * outputs, 2);
    (void)model.train_step({.rows = rows, .inputs = {x}, .targets = {t}});
    return variables_of(model);
  };
  const auto start = after_a_step(SGD({.learning_rate = 0}));
  const auto along = after_a_step(SGD({.learning_rate = 1}));
  const auto found = after_a_step(Lamb({.learning_rate = rate, .epsilon = epsilon}));
  for (std::size_t v = 0; v < start.size(); ++v) {
    INFO("variable " << v);
    // The first step's mean is the gradient, and its root mean square the gradient's size.
    std::vector<double> steps;
    double of_weights = 0, of_steps = 0;
    for (std::size_t i = 0; i < start[v].size(); ++i) {
      const double gradient = static_cast<double>(start[v][i]) - static_cast<double>(along[v][i]);
      steps.push_back(gradient / (std::abs(gradient) + epsilon));
      of_weights += static_cast<double>(start[v][i]) * static_cast<double>(start[v][i]);
      of_steps += steps[i] * steps[i];
    }
    // Biases begin at 0, which has no length.
    const double ratio = of_weights == 0 ? 1 : std::sqrt(of_weights / of_steps);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      // A gradient is a difference of float32 of order 1.
      CHECK(found[v][i] ==
            Approx(static_cast<double>(start[v][i]) - rate * ratio * steps[i]).margin(2e-5));
    }
  }
}

TEST_CASE("variables that are excluded from weight decay take the step of those without any") {
  DeviceMesh single = alone();
  const std::vector<std::string> excluded{"bias", "^d2/k"};
  const auto after_a_step = [&](const Optimizer& optimizer) {
    Model model = network(single, {}, optimizer);
    const std::vector<float> x = random_floats(rows * features, 1);
    const std::vector<float> t = random_floats(rows * outputs, 2);
    (void)model.train_step({.rows = rows, .inputs = {x}, .targets = {t}});
    return variables_of(model);
  };
  const auto check = [&](auto make, auto options) {
    options.learning_rate = 0.1;
    options.weight_decay = 0.5;
    const auto decayed = after_a_step(make(options));
    options.exclude_from_weight_decay = excluded;
    const auto partly = after_a_step(make(options));
    options.weight_decay = 0;
    const auto plain = after_a_step(make(options));
    INFO(make(options).class_name());
    CHECK(decayed[0] != plain[0]);
    CHECK(partly[0] == decayed[0]);  // d1/kernel
    for (const std::size_t other : {1, 2, 3}) CHECK(partly[other] == plain[other]);
  };
  check(SGD, SGDOptions{});
  check(AdamW, AdamWOptions{});
  check(Lion, LionOptions{.global_clipnorm = 0.1});
  check(Muon, MuonOptions{.adam_weight_decay = 0});
  CHECK_THROWS_WITH(
      AdamW({.exclude_from_weight_decay = {"norm("}}),
      "AdamW: exclude_from_weight_decay: expression \"norm(\" is not a regular expression: "
      "parentheses that do not match, at character 5 (\"(\")");
  CHECK_THROWS_WITH(AdamW({.exclude_from_weight_decay = {""}}),
                    "AdamW: exclude_from_weight_decay: expression \"\" is empty; expected a path "
                    "or a regular expression");
}

}  // namespace meshwork::optimizers_on_meshes_test
