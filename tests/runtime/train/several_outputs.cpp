// Models with several outputs, each with a loss of its own, against training worked out in double
// precision, on every mesh.
//
// A dense layer with tanh feeds two dense layers: one is compared with a number, one with a class.
// The reference states the loss of a batch; its gradient is taken by central differences.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "layers/activation.h"
#include "layers/dense.h"
#include "runtime/data/array.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::several_outputs_test {

using namespace meshwork::test;

namespace {

constexpr std::size_t rows = 11, features = 3, hidden = 6, classes = 4, batch = 4;
constexpr double rate = 0.2, price_weight = 0.3, kind_weight = 2;

struct Samples {
  std::vector<float> x = random_floats(rows * features, 1);
  std::vector<float> prices = random_floats(rows, 2);
  std::vector<std::int32_t> kinds;
  std::vector<float> weights = random_floats(rows, 3, 0.25, 3);

  Samples() {
    for (std::size_t row = 0; row < rows; ++row) {
      kinds.push_back(static_cast<std::int32_t>(row * 3 % classes));
    }
  }

  [[nodiscard]] std::shared_ptr<const Source> source(bool weighted = false) const {
    std::vector<Array> arrays{Array("x", x, {rows, features}),
                              Array("price", prices, {rows, 1}, FieldRole::target),
                              Array("kind", kinds, {rows}, FieldRole::target)};
    if (weighted) arrays.emplace_back("w", weights, Shape{rows}, FieldRole::weight);
    return std::make_shared<ArraySource>(std::move(arrays));
  }
};

const std::vector<std::string> paths{"trunk/kernel", "trunk/bias",  "price/kernel",
                                     "price/bias",   "kind/kernel", "kind/bias"};

/// The network in double precision.
struct Reference {
  std::map<std::string, std::vector<double>> variables;

  explicit Reference(Model& model) {
    for (const std::string& path : paths) {
      const std::vector<float> values = model.variable(path);
      variables[path].assign(values.begin(), values.end());
    }
  }

  static std::vector<double> dense(const std::vector<double>& in, const std::vector<double>& kernel,
                                   const std::vector<double>& bias) {
    std::vector<double> out = bias;
    for (std::size_t i = 0; i < in.size(); ++i) {
      for (std::size_t k = 0; k < out.size(); ++k) out[k] += in[i] * kernel[i * out.size() + k];
    }
    return out;
  }

  struct Losses {
    double price = 0, kind = 0, right = 0;
    [[nodiscard]] double total() const { return price_weight * price + kind_weight * kind; }
  };
  /// Sums over rows [first, last), each row's losses multiplied by its weight.
  [[nodiscard]] Losses losses(const Samples& samples, std::size_t first, std::size_t last,
                              bool weighted) const {
    Losses sums;
    for (std::size_t row = first; row < last; ++row) {
      std::vector<double> in;
      for (std::size_t i = 0; i < features; ++i) in.push_back(samples.x[row * features + i]);
      std::vector<double> h = dense(in, variables.at("trunk/kernel"), variables.at("trunk/bias"));
      for (double& value : h) value = std::tanh(value);
      const double price =
          dense(h, variables.at("price/kernel"), variables.at("price/bias")).front();
      const std::vector<double> logits =
          dense(h, variables.at("kind/kernel"), variables.at("kind/bias"));
      const double weight = weighted ? samples.weights[row] : 1;
      const double error = price - samples.prices[row];
      sums.price += weight * error * error;
      double exponentials = 0;
      for (const double logit : logits) exponentials += std::exp(logit);
      const auto kind = static_cast<std::size_t>(samples.kinds[row]);
      sums.kind += weight * (std::log(exponentials) - logits[kind]);
      const auto largest = std::max_element(logits.begin(), logits.end()) - logits.begin();
      sums.right += static_cast<std::size_t>(largest) == kind ? 1 : 0;
    }
    return sums;
  }

  /// One epoch of plain descent on `loss_of` a batch's sums; gives the means over the rows.
  Losses train(const Samples& samples, bool weighted,
               const std::function<double(const Losses&)>& loss_of = &Losses::total) {
    Losses epoch;
    for (std::size_t first = 0; first < rows; first += batch) {
      const std::size_t last = std::min(first + batch, rows);
      const Losses before = losses(samples, first, last, weighted);
      epoch.price += before.price / rows;
      epoch.kind += before.kind / rows;
      epoch.right += before.right / rows;
      auto next = variables;
      for (auto& [path, values] : variables) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          constexpr double step = 1e-5;
          const double value = values[i];
          values[i] = value + step;
          const double above = loss_of(losses(samples, first, last, weighted));
          values[i] = value - step;
          const double below = loss_of(losses(samples, first, last, weighted));
          values[i] = value;
          next[path][i] -= rate * (above - below) / (2 * step) / static_cast<double>(last - first);
        }
      }
      variables = std::move(next);
    }
    return epoch;
  }

  void check(Model& model) const {
    for (const std::string& path : paths) {
      const std::vector<float> found = model.variable(path);
      for (std::size_t i = 0; i < found.size(); ++i) {
        INFO(path << ", element " << i);
        CHECK(found[i] == Approx(variables.at(path)[i]).epsilon(1e-4).margin(1e-5));
      }
    }
  }
};

struct Spread {
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
};

std::vector<Spread> spreads() {
  const int ranks = Communicator::world().size();
  const LayoutEntries split{{"trunk/kernel", {unsharded, "model"}},
                            {"trunk/bias", {"model"}},
                            {"price/kernel", {"model", unsharded}},
                            {"kind/kernel", {unsharded, "model"}},
                            {"kind/bias", {"model"}},
                            {"kind/output", {"data", "model"}}};
  std::vector<Spread> all{{{{"data", ranks}, {"model", 1}}, {}},
                          {{{"data", 1}, {"model", ranks}}, split}};
  if (ranks % 2 == 0) all.push_back({{{"data", 2}, {"model", ranks / 2}}, split});
  return all;
}

Model make_model(DeviceMesh& mesh, const LayoutEntries& layouts = {}) {
  const auto x = Input({features});
  const auto trunk = Dense({.name = "trunk", .units = hidden, .activation = Activation::tanh})(x);
  const auto price = Dense({.name = "price", .units = 1})(trunk);
  const auto kind = Dense({.name = "kind", .units = classes})(trunk);
  return Model({x}, {price, kind}, spread_over(mesh, layouts), {.seed = 3});
}

OutputTraining price_training() {
  return {.loss = MeanSquaredError(), .weight = price_weight, .metrics = {MeanSquaredError()}};
}
OutputTraining kind_training() {
  return {.loss = SparseCategoricalCrossentropy({.from_logits = true}),
          .weight = kind_weight,
          .metrics = {SparseCategoricalAccuracy({.name = "accuracy"})}};
}

CompileOptions compiled(std::map<std::string, OutputTraining> outputs = {
                            {"price", price_training()}, {"kind", kind_training()}}) {
  return {.optimizer = SGD({.learning_rate = rate}), .outputs = std::move(outputs)};
}

FitOptions quiet() {
  return {.batch_size = batch, .shuffle = false, .verbose = Verbosity::silent};
}

}  // namespace

TEST_CASE("the weighted sum of the losses of all outputs falls as in the formula, on every mesh") {
  const Samples samples;
  const bool weighted = GENERATE(false, true);
  for (const Spread& spread : spreads()) {
    DeviceMesh mesh(spread.axes);
    INFO("samples weighted: " << weighted << ", " << to_string(mesh.shape()));
    Model model = make_model(mesh, spread.layouts);
    model.compile(compiled());
    Reference reference(model);
    FitOptions options = quiet();
    options.epochs = 2;
    options.validation = samples.source();
    const History history = model.fit(samples.source(weighted), options);
    for (std::size_t epoch = 0; epoch < 2; ++epoch) {
      const Reference::Losses expected = reference.train(samples, weighted);
      CHECK(history.at("loss")[epoch] == Approx(expected.total()).epsilon(1e-5));
      CHECK(history.at("price_loss")[epoch] == Approx(expected.price).epsilon(1e-5));
      CHECK(history.at("kind_loss")[epoch] == Approx(expected.kind).epsilon(1e-5));
      CHECK(history.at("kind_accuracy")[epoch] == Approx(expected.right).epsilon(1e-12));
      const Reference::Losses validated = reference.losses(samples, 0, rows, false);
      CHECK(history.at("val_loss")[epoch] == Approx(validated.total() / rows).epsilon(1e-5));
      CHECK(history.at("val_price_mean_squared_error")[epoch] ==
            Approx(validated.price / rows).epsilon(1e-5));
    }
    reference.check(model);
  }
}

TEST_CASE("an output without a loss needs no targets and is not trained") {
  const Samples samples;
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh);
  model.compile(compiled({{"price", {}}, {"kind", kind_training()}}));
  Reference reference(model);
  const std::vector<float> price = model.variable("price/kernel");
  std::vector<Array> arrays{Array("x", samples.x, {rows, features}),
                            Array("kind", samples.kinds, {rows}, FieldRole::target)};
  const History history = model.fit(std::make_shared<ArraySource>(std::move(arrays)), quiet());
  (void)reference.train(samples, false,
                        [](const Reference::Losses& sums) { return kind_weight * sums.kind; });
  reference.check(model);
  CHECK(model.variable("price/kernel") == price);
  // The only loss has no name of its own.
  CHECK(history.history.size() == 2);
  CHECK(history.at("accuracy").size() == 1);
}

TEST_CASE("steps on batches of one's own take a target for each output") {
  const Samples samples;
  const std::vector<float> kinds(samples.kinds.begin(), samples.kinds.end());
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh);
  model.compile(compiled());
  const Reference reference(model);
  const Reference::Losses sums = reference.losses(samples, 0, rows, false);
  BatchView view{.rows = rows, .inputs = {samples.x}, .targets = {samples.prices, kinds}};
  for (int time = 0; time < 2; ++time) {
    const Logs logs = model.evaluate_step(view);
    CHECK(logs.at("loss") == Approx(sums.total() / rows).epsilon(1e-5));
    CHECK(logs.at("kind_loss") == Approx(sums.kind / rows).epsilon(1e-5));
    view.targets.pop_back();
    CHECK_THROWS_WITH(model.evaluate_step(view),
                      Catch::Contains("compares 2 of its outputs with targets, the batch has 1"));
    view.targets = {samples.prices, kinds};
  }
}

TEST_CASE("every output is predicted") {
  const Samples samples;
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh);
  CHECK(model.output_shapes() == std::vector<Shape>{{1}, {classes}});
  std::vector<float> prices, kinds;
  model.predict(samples.source(),
                [&](std::int64_t first, std::span<const std::vector<float>> outputs) {
                  CHECK(first == static_cast<std::int64_t>(prices.size()));
                  REQUIRE(outputs.size() == 2);
                  prices.insert(prices.end(), outputs[0].begin(), outputs[0].end());
                  kinds.insert(kinds.end(), outputs[1].begin(), outputs[1].end());
                },
                {.batch_size = batch});
  CHECK(model.predict(samples.source(), {.batch_size = batch}) == prices);
  CHECK(kinds.size() == rows * classes);
  const Reference reference(model);
  double squares = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    squares += std::pow(static_cast<double>(prices[row]) - samples.prices[row], 2);
  }
  CHECK(squares == Approx(reference.losses(samples, 0, rows, false).price).epsilon(1e-5));
}

TEST_CASE("what outputs are trained by is checked when the model is compiled") {
  const Samples samples;
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh);
  CHECK_THROWS_WITH(model.compile({.loss = MeanSquaredError()}),
                    Catch::Contains("2 outputs, \"price\" and \"kind\", and one loss"));
  CHECK_THROWS_WITH(model.compile(compiled({{"price", price_training()}})),
                    Catch::Contains("output \"kind\" it is not said"));
  CHECK_THROWS_WITH(
      model.compile(compiled(
          {{"price", price_training()}, {"kind", kind_training()}, {"kinds", kind_training()}})),
      Catch::Contains("no output \"kinds\"") && Catch::Contains("\"kind\"?"));
  CompileOptions both = compiled();
  both.loss = MeanSquaredError();
  CHECK_THROWS_WITH(model.compile(both), Catch::Contains("give one of the two"));
  model.compile(compiled({{"price", {}}, {"kind", {}}}));
  CHECK_THROWS_WITH(model.fit(samples.source(), quiet()),
                    Catch::Contains("no output of the model has a loss"));
  model.compile(compiled());
  FitOptions options = quiet();
  options.class_weight = {{0, 2}};
  CHECK_THROWS_WITH(model.fit(samples.source(), options),
                    Catch::Contains("class weights need a model with one loss"));
  std::vector<Array> arrays{Array("x", samples.x, {rows, features}),
                            Array("price", samples.prices, {rows, 1}, FieldRole::target)};
  CHECK_THROWS_WITH(model.fit(std::make_shared<ArraySource>(std::move(arrays)), quiet()),
                    Catch::Contains("2 outputs of the model are compared with targets"));
}

TEST_CASE("outputs whose logs could be taken for others are refused") {
  const Samples samples;
  DeviceMesh mesh({{"data", -1}});
  const auto refusal = [&](const std::string& first, const std::string& second,
                           const std::string& metric) {
    const auto x = Input({features});
    Model model({x},
                {Dense({.name = first, .units = 1})(x), Dense({.name = second, .units = 1})(x)},
                spread_over(mesh, {}));
    model.compile(compiled(
        {{first, {.loss = MeanSquaredError()}},
         {second, {.loss = MeanSquaredError(), .metrics = {MeanSquaredError({.name = metric})}}}}));
    std::vector<Array> arrays{Array("x", samples.x, {rows, features})};
    for (const std::string& name : {first, second}) {
      arrays.emplace_back(name, samples.prices, Shape{rows, 1}, FieldRole::target);
    }
    try {
      (void)model.fit(std::make_shared<ArraySource>(std::move(arrays)), quiet());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  CHECK(refusal("a", "b", "c") == "nothing");
  CHECK_THAT(refusal("val_a", "a", "c"), Catch::Contains("\"val_\" marks values of validation"));
  CHECK_THAT(refusal("a", "learning", "rate"), Catch::Contains("logs have such a value already"));
  CHECK_THAT(refusal("a", "gradient", "norm"), Catch::Contains("have the name \"gradient_norm\""));
  CHECK_THAT(refusal("a_b", "a", "b_loss"), Catch::Contains("have the name \"a_b_loss\""));
}

}  // namespace meshwork::several_outputs_test
