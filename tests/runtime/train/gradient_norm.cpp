// The norm of all gradients, which training logs where that is asked for, on every mesh.
//
// It is held against two truths: gradients worked out in double precision for a softmax of one dense
// layer with a penalty; and, for a larger network, what plain descent at the rate 1 does to the
// weights, which is the gradient itself.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "layers/activation.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/regularizers/l1_l2.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::gradient_norm_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t rows = 19, features = 3, classes = 5, batch = 8;
constexpr double rate = 0.5;
constexpr float l2 = 0.25f;

struct Samples {
  std::vector<float> x = random_floats(rows * features, 1);
  std::vector<std::int32_t> targets;

  Samples() {
    for (std::int32_t row = 0; row < rows; ++row) targets.push_back(row * 3 % classes);
  }
  [[nodiscard]] std::shared_ptr<const Source> source() const {
    return std::make_shared<ArraySource>(std::vector<Array>{
        Array("x", x, {rows, features}), Array("t", targets, {rows}, FieldRole::target)});
  }
};

struct Spread {
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
};

// Batches split; each kernel split, alone and beside batches; and all that is trained, over all ranks.
std::vector<Spread> spreads(const LayoutEntries& split) {
  const int ranks = Communicator::world().size();
  std::vector<Spread> all{
      {{{"data", ranks}, {"model", 1}}, {}},
      {{{"data", 1}, {"model", ranks}}, split},
      {{{"data", ranks}}, {{".*/kernel", {"data", unsharded}}, {".*/bias", {"data"}}}}};
  if (ranks % 2 == 0) all.push_back({{{"data", ranks / 2}, {"model", 2}}, split});
  return all;
}

double square(double value) {
  return value * value;
}

// The layer in double precision.
struct Reference {
  std::vector<double> kernel, bias;

  explicit Reference(Model& model) {
    for (const float value : model.variable("d/kernel")) kernel.push_back(value);
    for (const float value : model.variable("d/bias")) bias.push_back(value);
  }

  // Trains on some rows, with each gradient clipped to `limit`, and gives the norm before that.
  double step(const Samples& samples, std::int64_t first, std::int64_t count, double limit) {
    std::vector<double> dk(kernel.size()), db(bias.size());
    for (std::size_t i = 0; i < kernel.size(); ++i) dk[i] = 2 * double{l2} * kernel[i];
    for (std::int64_t row = first; row < first + count; ++row) {
      const float* x = samples.x.data() + row * features;
      std::vector<double> p = bias;
      for (std::int64_t i = 0; i < features; ++i) {
        for (std::int64_t k = 0; k < classes; ++k) p[at(k)] += double{x[i]} * kernel[at(i, k)];
      }
      double sum = 0;
      for (double& value : p) sum += value = std::exp(value);
      for (std::int64_t k = 0; k < classes; ++k) {
        const double target = samples.targets[at(row)] == k ? 1 : 0;
        const double dz = (p[at(k)] / sum - target) / static_cast<double>(count);
        db[at(k)] += dz;
        for (std::int64_t i = 0; i < features; ++i) dk[at(i, k)] += double{x[i]} * dz;
      }
    }
    double squares = 0;
    const auto descend = [&](std::vector<double>& values, const std::vector<double>& slopes) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        squares += square(slopes[i]);
        values[i] -= rate * std::clamp(slopes[i], -limit, limit);
      }
    };
    descend(kernel, dk);
    descend(bias, db);
    return std::sqrt(squares);
  }

 private:
  static std::size_t at(std::int64_t k) { return static_cast<std::size_t>(k); }
  static std::size_t at(std::int64_t i, std::int64_t k) { return at(i * classes + k); }
};

Model softmax_model(DeviceMesh& mesh, const LayoutEntries& layouts, const SGDOptions& descent) {
  const auto x = Input({features});
  Model model(x, Dense({.name = "d", .units = classes, .kernel_regularizer = L2(l2)})(x),
              spread_over(mesh, layouts), {.seed = 3, .check_plan = true});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = SGD(descent),
                 .metrics = {SparseCategoricalAccuracy()},
                 .gradient_norm = true});
  return model;
}

// A network of two layers of weights, and where they end.
struct Network {
  static constexpr std::int64_t inputs = 6, hidden = 9, outputs = 4;
  std::vector<float> x = random_floats(10 * inputs, 7), targets;

  Network() {
    for (std::int64_t row = 0; row < 10; ++row)
      targets.push_back(static_cast<float>(row % outputs));
  }
  static Model model(DeviceMesh& mesh, const LayoutEntries& layouts, const SGDOptions& descent,
                     bool gradient_norm = true) {
    const auto input = Input({inputs});
    auto y = Dense({.name = "d1", .units = hidden, .activation = Activation::tanh})(input);
    y = Dense({.name = "resting", .units = hidden, .trainable = false})(y);
    y = Dropout({.rate = 0.3f})(y);
    y = Dense({.name = "d2", .units = outputs, .kernel_regularizer = L2(0.1f)})(y);
    Model made(input, y, spread_over(mesh, layouts), {.seed = 5, .check_plan = true});
    made.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                  .optimizer = SGD(descent),
                  .gradient_norm = gradient_norm});
    return made;
  }
  [[nodiscard]] BatchView view() const { return {.rows = 10, .inputs = {x}, .targets = {targets}}; }
};

const LayoutEntries network_split{{"d1/kernel", {unsharded, "model"}},
                                  {"d1/bias", {"model"}},
                                  {"d2/kernel", {"model", unsharded}}};

std::vector<double> weights_of(Model& model) {
  std::vector<double> all;
  for (const Variable& variable : model.graph().variables) {
    for (const float value : model.variable(variable.path)) all.push_back(value);
  }
  return all;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += square(a[i] - b[i]);
  return std::sqrt(squares);
}

}  // namespace

TEST_CASE("the norm of the gradients is that of the formula on every mesh") {
  const Samples samples;
  const bool clipped = GENERATE(false, true);
  const double limit = clipped ? 0.05 : 1e30;
  const LayoutEntries split{
      {"d/kernel", {unsharded, "model"}}, {"d/bias", {"model"}}, {"d/output", {"data", "model"}}};
  for (const Spread& spread : spreads(split)) {
    DeviceMesh mesh(spread.axes);
    INFO(to_string(spread.layouts) << " on " << to_string(mesh.shape()) << ", clipped " << clipped);
    SGDOptions descent{.learning_rate = rate};
    if (clipped) descent.clipvalue = limit;
    Model model = softmax_model(mesh, spread.layouts, descent);
    Reference reference(model);
    const History history = model.fit(samples.source(), {.epochs = 3,
                                                         .batch_size = batch,
                                                         .validation = samples.source(),
                                                         .shuffle = false,
                                                         .verbose = Verbosity::silent});
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      double mean = 0;  // over the rows, of which the last batch has fewer
      for (std::int64_t first = 0; first < rows; first += batch) {
        const std::int64_t count = std::min(batch, rows - first);
        mean += reference.step(samples, first, count, limit) * static_cast<double>(count) / rows;
      }
      CHECK(history.at("gradient_norm")[epoch] == Approx(mean).epsilon(1e-5));
    }
    CHECK(history.history.count("val_gradient_norm") == 0);
    CHECK(history.history.count("val_loss") == 1);
  }
}

TEST_CASE("plain descent at the rate 1 moves the weights by the norm that is logged") {
  const Network network;
  for (const Spread& spread : spreads(network_split)) {
    DeviceMesh mesh(spread.axes);
    INFO(to_string(spread.layouts) << " on " << to_string(mesh.shape()));
    Model model = Network::model(mesh, spread.layouts, {.learning_rate = 1.0});
    std::vector<double> before = weights_of(model);
    for (int step = 0; step < 3; ++step) {
      const double norm = model.train_step(network.view()).at("gradient_norm");
      std::vector<double> after = weights_of(model);
      CHECK(norm > 0.1);
      CHECK(distance(before, after) == Approx(norm).epsilon(1e-5));
      before = std::move(after);
    }
    CHECK_FALSE(model.evaluate_step(network.view()).find("gradient_norm"));
  }
}

TEST_CASE("the norm is that of before clipping, however gradients are clipped") {
  const Network network;
  for (const Spread& spread : spreads(network_split)) {
    DeviceMesh mesh(spread.axes);
    INFO(to_string(spread.layouts) << " on " << to_string(mesh.shape()));
    Model free = Network::model(mesh, spread.layouts, {.learning_rate = 1.0});
    const double norm = free.train_step(network.view()).at("gradient_norm");
    for (const SGDOptions& descent : {SGDOptions{.learning_rate = 1.0, .clipnorm = 0.01},
                                      SGDOptions{.learning_rate = 1.0, .clipvalue = 0.01},
                                      SGDOptions{.learning_rate = 1.0, .global_clipnorm = 0.01}}) {
      Model model = Network::model(mesh, spread.layouts, descent);
      const std::vector<double> before = weights_of(model);
      CHECK(model.train_step(network.view()).at("gradient_norm") == Approx(norm).epsilon(1e-6));
      const double moved = distance(before, weights_of(model));
      CHECK(moved < 0.5 * norm);
      if (descent.global_clipnorm) CHECK(moved == Approx(0.01).epsilon(1e-3));
    }
  }
}

TEST_CASE("a run that logs the norm trains as one that does not, and sends 8 bytes a sum more") {
  const Network network;
  for (const Spread& spread : spreads(network_split)) {
    DeviceMesh mesh(spread.axes);
    INFO(to_string(spread.layouts) << " on " << to_string(mesh.shape()));
    Model with = Network::model(mesh, spread.layouts, {.learning_rate = 0.5});
    Model without = Network::model(mesh, spread.layouts, {.learning_rate = 0.5}, false);
    for (int step = 0; step < 3; ++step) {
      const Logs logs = with.train_step(network.view());
      const Logs fewer = without.train_step(network.view());
      CHECK(logs.at("loss") == fewer.at("loss"));
      CHECK_FALSE(fewer.find("gradient_norm"));
    }
    CHECK(weights_of(with) == weights_of(without));
    const auto source = std::make_shared<ArraySource>(
        std::vector<Array>{Array("x", network.x, {10, Network::inputs}),
                           Array("t", network.targets, {10}, FieldRole::target)});
    const auto sums = [&](Model& model) {
      std::pair<std::size_t, std::int64_t> found;
      for (const CollectiveRecord& record : model.plan(source, 10).collectives) {
        ++found.first;
        if (record.type == ElementType::float64) found.second += record.global_elements;
      }
      return found;
    };
    const auto [collectives, values] = sums(without);
    const bool reduced = collectives > 0;
    CHECK(sums(with) == std::pair(collectives, values + (reduced ? 1 : 0)));
  }
}

TEST_CASE("no metric is called as the norm of the gradients") {
  class Named final : public Metric {
   public:
    std::string name() const override { return "gradient_norm"; }
    Better better() const override { return Better::lower; }
    std::unique_ptr<Operation> operation(const Shape& prediction,
                                         const Shape& target) const override {
      return SparseCategoricalAccuracy()->operation(prediction, target);
    }
  };
  const std::vector<SharedMetric> metrics{std::make_shared<Named>()};
  CHECK_THROWS_WITH(check_metric_names(metrics), Catch::Contains("gradient_norm"));
}

}  // namespace meshwork::gradient_norm_test
