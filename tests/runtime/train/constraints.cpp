// Constraints: after each step variables are what Keras's constraints make of them, however they
// are split.
#include "runtime/graph/constraint.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "layers/activation.h"
#include "layers/constraints/max_norm.h"
#include "layers/constraints/min_max_norm.h"
#include "layers/constraints/non_neg.h"
#include "layers/constraints/unit_norm.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/flatten.h"
#include "layers/initializers/random_uniform.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/lamb.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::constraints_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t rows = 7, length = 6, channels = 4, outputs = 5;

struct Held {
  Constraint kernel, bias, window;
};

Model network(DeviceMesh& mesh, const LayoutEntries& layouts, const Held& held,
              const Optimizer& optimizer = SGD({.learning_rate = 0.5})) {
  const auto input = Input({length, channels});
  auto y = Conv1D({.name = "c",
                   .filters = 8,
                   .kernel_size = 3,
                   .padding = Padding::same,
                   .activation = Activation::tanh,
                   .kernel_constraint = held.window})(input);
  y = Flatten()(y);
  y = Dense({.name = "d",
             .units = outputs,
             .bias_initializer = RandomUniform(),
             .kernel_constraint = held.kernel,
             .bias_constraint = held.bias})(y);
  Model model(input, y, spread_over(mesh, layouts), {.seed = 5, .check_plan = true});
  model.compile({.loss = MeanSquaredError(), .optimizer = optimizer});
  return model;
}

void train(Model& model, unsigned steps) {
  for (unsigned step = 0; step < steps; ++step) {
    const std::vector<float> x = random_floats(rows * length * channels, 10 + step);
    const std::vector<float> t = random_floats(rows * outputs, 30 + step);
    (void)model.train_step({.rows = rows, .inputs = {x}, .targets = {t}});
  }
}

std::vector<std::vector<float>> trained(DeviceMesh& mesh, const LayoutEntries& layouts,
                                        const Held& held, const Optimizer& optimizer,
                                        unsigned steps) {
  Model model = network(mesh, layouts, held, optimizer);
  train(model, steps);
  return variables_of(model);
}

// Keras's formula in double, on a matrix, by column or by row.
struct Limits {
  double minimum, maximum, rate = 1;
};
std::vector<float> limited(const Limits& limits, std::vector<float> w, std::int64_t columns,
                           bool by_column) {
  const auto height = static_cast<std::int64_t>(w.size()) / columns;
  for (std::int64_t one = 0; one < (by_column ? columns : height); ++one) {
    const auto at = [&](std::int64_t i) -> float& {
      return w[static_cast<std::size_t>(by_column ? i * columns + one : one * columns + i)];
    };
    const std::int64_t count = by_column ? height : columns;
    double squares = 0;
    for (std::int64_t i = 0; i < count; ++i) squares += static_cast<double>(at(i)) * at(i);
    const double norm = std::sqrt(squares);
    double wanted = std::clamp(norm, limits.minimum, limits.maximum);
    wanted = limits.rate * wanted + (1 - limits.rate) * norm;
    for (std::int64_t i = 0; i < count; ++i) {
      at(i) = static_cast<float>(static_cast<double>(at(i)) * wanted / (norm + 1e-7));
    }
  }
  return w;
}

}  // namespace

TEST_CASE("after a step variables are what Keras's constraints make of them") {
  const Constraint max = MaxNorm({.max_value = 0.5});
  const Constraint between =
      MinMaxNorm({.min_value = 0.8, .max_value = 0.9, .rate = 0.25, .axis = -1});
  DeviceMesh mesh = alone();
  const auto step = [&](const Held& held) {
    return trained(mesh, {}, held, SGD({.learning_rate = 0.5}), 1);
  };
  const auto free = step({});
  enum { window, window_bias, kernel, bias };
  const auto norms = step({.kernel = max, .bias = UnitNorm()});
  CHECK(difference(norms[kernel], limited({0, 0.5}, free[kernel], outputs, true), 1e-6) == "");
  CHECK(difference(norms[bias], limited({1, 1}, free[bias], 1, true), 1e-6) == "");
  CHECK(difference(norms[window], free[window], 0) == "");
  const Constraint unit = UnitNorm({.axis = {1, 0}});  // of (3, 4, 8): each filter
  const auto others = step({.kernel = between, .bias = NonNeg(), .window = unit});
  CHECK(difference(others[kernel], limited({0.8, 0.9, 0.25}, free[kernel], outputs, false), 1e-6) ==
        "");
  CHECK(difference(others[window], limited({1, 1}, free[window], 8, true), 1e-6) == "");
  bool any = false;
  for (std::size_t i = 0; i < free[bias].size(); ++i) {
    CHECK(others[bias][i] == std::max(free[bias][i], 0.0f));
    any = any || free[bias][i] < 0;
  }
  CHECK(any);
}

TEST_CASE("constrained variables train on every mesh as on one rank") {
  const int ranks = Communicator::world().size();
  const Held held{.kernel = MaxNorm({.max_value = 0.7}),
                  .bias = NonNeg(),
                  .window = UnitNorm({.axis = {0, 1}})};
  const std::vector<std::pair<std::vector<MeshAxis>, LayoutEntries>> spreads{
      {{{"data", ranks}}, {}},
      {{{"data", ranks}},
       {{"d/kernel", {"data", unsharded}},
        {"c/kernel", {unsharded, "data", unsharded}},
        {"d/bias", {"data"}}}},
      {{{"data", 1}, {"model", ranks}},
       {{"d/kernel", {"model", unsharded}}, {"c/kernel", {unsharded, "model", unsharded}}}},
      {{{"data", 1}, {"model", ranks}},
       {{"d/kernel", {unsharded, "model"}}, {"c/kernel", {unsharded, unsharded, "model"}}}}};
  for (const Optimizer& optimizer :
       {SGD({.learning_rate = 0.1, .momentum = 0.9}), Lamb({.learning_rate = 0.01})}) {
    DeviceMesh one = alone();
    const auto expected = trained(one, {}, held, optimizer, 5);
    for (const auto& [axes, layouts] : spreads) {
      DeviceMesh mesh(axes);
      INFO(optimizer.class_name() << ", " << to_string(layouts) << " on "
                                  << to_string(mesh.shape()));
      const auto found = trained(mesh, layouts, held, optimizer, 5);
      for (std::size_t v = 0; v < found.size(); ++v) {
        CHECK(difference(found[v], expected[v], 2e-5) == "");  // rounding, over five steps
      }
    }
  }
}

TEST_CASE("an axis that a variable does not have is an error of its layer") {
  const auto message = [&](const ConstrainedAxis& axis) {
    try {
      (void)Dense({.name = "d", .units = 2, .kernel_constraint = MaxNorm({.axis = axis})})(
          Input({3}));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message(2) ==
        "d: its variable \"kernel\": axis: a variable of shape (3, 2) has no dimension 2");
  CHECK_THAT(message({0, 0}), Catch::EndsWith("expected neighbouring dimensions, found 0 and 0"));
  CHECK_THAT(message(std::initializer_list<std::int64_t>{}),
             Catch::EndsWith("expected one dimension at least"));
  CHECK(message({-1, 0}).empty());
}

}  // namespace meshwork::constraints_test
