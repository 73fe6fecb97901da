// Rows of an ignored class, against training worked out in double precision: on every mesh, in
// micro-batches, with weights of rows and of classes.
//
// The model is a dense layer on every place of a sequence. The reference goes through the batches in
// order; the mean of each is over the rows that count, on whichever rank and in whichever
// micro-batch they are. There are batches of which only one rank has such rows, and of none.
#include "runtime/train/losses/categorical_crossentropy.h"

#include <cmath>
#include <numbers>

#include "layers/dense.h"
#include "runtime/train/losses/generalized_crossentropy.h"
#include "runtime/train/metrics/accuracy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/metrics/iou.h"
#include "runtime/train/metrics/perplexity.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::ignored_class_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t samples = 29, length = 5, features = 3, classes = 7, batch = 13;
constexpr std::int64_t rows = samples * length;
constexpr double rate = 0.5;

struct Data {
  std::int64_t ignored;
  std::vector<float> x = random_floats(rows * features, 1);
  std::vector<float> weights = random_floats(rows, 2, 0.25, 3);
  std::vector<std::int32_t> targets;

  explicit Data(std::int64_t ignored) : ignored(ignored) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t sample = row / length;
      // In the second batch only the last sample counts, in the short last one none.
      const bool left_out =
          sample >= 2 * batch || (sample >= batch && sample < 2 * batch - 1) || row % 4 == 1;
      targets.push_back(static_cast<std::int32_t>(left_out ? ignored : row * 3 % classes));
    }
  }
  [[nodiscard]] bool counts(std::int64_t row) const {
    return targets[static_cast<std::size_t>(row)] != ignored;
  }
  [[nodiscard]] std::shared_ptr<const Source> source(bool weighted) const {
    std::vector<Array> arrays{Array("x", x, {samples, length, features}),
                              Array("t", targets, {samples, length}, FieldRole::target)};
    if (weighted) arrays.emplace_back("w", weights, Shape{samples, length}, FieldRole::weight);
    return std::make_shared<ArraySource>(std::move(arrays));
  }
};

/// The layer in double precision.
struct Reference {
  const Data& data;
  bool weighted;
  ClassWeights class_weight;
  std::vector<double> kernel, bias;

  Reference(Model& model, const Data& of, bool weighted, ClassWeights of_classes)
      : data(of), weighted(weighted), class_weight(std::move(of_classes)) {
    for (const float value : model.variable("d/kernel")) kernel.push_back(value);
    for (const float value : model.variable("d/bias")) bias.push_back(value);
  }

  [[nodiscard]] std::vector<double> logits(std::int64_t row) const {
    std::vector<double> z = bias;
    for (std::int64_t i = 0; i < features; ++i) {
      for (std::int64_t k = 0; k < classes; ++k) {
        z[static_cast<std::size_t>(k)] +=
            static_cast<double>(data.x[static_cast<std::size_t>(row * features + i)]) *
            kernel[static_cast<std::size_t>(i * classes + k)];
      }
    }
    return z;
  }
  [[nodiscard]] std::size_t target(std::int64_t row) const {
    return static_cast<std::size_t>(data.targets[static_cast<std::size_t>(row)]);
  }
  [[nodiscard]] double weight(std::int64_t row, bool training) const {
    const auto found = class_weight.find(target(row));
    return (weighted ? static_cast<double>(data.weights[static_cast<std::size_t>(row)]) : 1.0) *
           (!training || found == class_weight.end() ? 1.0 : found->second);
  }

  struct Epoch {
    double loss = 0;  // batches count by their rows
    double entropy = 0, right = 0, counted = 0;
    [[nodiscard]] double mean_entropy() const { return entropy / counted; }
  };
  Epoch run(bool training) {
    Epoch epoch;
    for (std::int64_t first = 0; first < samples; first += batch) {
      const std::int64_t end = std::min(first + batch, samples);
      double counted = 0, loss = 0;
      for (std::int64_t row = first * length; row < end * length; ++row) {
        counted += data.counts(row) ? 1 : 0;
      }
      std::vector<double> dk(kernel.size()), db(bias.size());
      for (std::int64_t row = first * length; row < end * length; ++row) {
        if (!data.counts(row)) continue;
        std::vector<double> p = logits(row);
        const std::size_t right = target(row);
        epoch.right +=
            std::max_element(p.begin(), p.end()) - p.begin() == static_cast<std::ptrdiff_t>(right)
                ? 1
                : 0;
        double sum = 0;
        for (double& value : p) sum += value = std::exp(value);
        const double entropy = std::log(sum) - std::log(p[right]);
        const double share = weight(row, training) / counted;
        epoch.entropy += entropy;
        loss += share * entropy;
        for (std::size_t k = 0; k < p.size(); ++k) {
          const double slope = share * (p[k] / sum - (k == right ? 1 : 0));
          db[k] += slope;
          for (std::int64_t i = 0; i < features; ++i) {
            dk[static_cast<std::size_t>(i * classes) + k] +=
                slope * static_cast<double>(data.x[static_cast<std::size_t>(row * features + i)]);
          }
        }
      }
      epoch.counted += counted;
      epoch.loss += loss * static_cast<double>(end - first) / static_cast<double>(samples);
      if (!training) continue;
      for (std::size_t i = 0; i < dk.size(); ++i) kernel[i] -= rate * dk[i];
      for (std::size_t i = 0; i < db.size(); ++i) bias[i] -= rate * db[i];
    }
    return epoch;
  }
};

struct Spread {
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
};

/// Batches, the sequence and classes split, and two of them.
std::vector<Spread> spreads() {
  const int ranks = Communicator::world().size();
  const LayoutEntries sequence{{"d/output", {"data", "model", unsharded}}};
  const LayoutEntries split{{"d/kernel", {unsharded, "model"}},
                            {"d/bias", {"model"}},
                            {"d/output", {"data", unsharded, "model"}}};
  std::vector<Spread> all{{{{"data", ranks}, {"model", 1}}, {}},
                          {{{"data", 1}, {"model", ranks}}, sequence},
                          {{{"data", 1}, {"model", ranks}}, split}};
  if (ranks == 4) {
    all.push_back({{{"data", 2}, {"model", 2}}, sequence});
    all.push_back({{{"data", 2}, {"model", 2}}, split});
  }
  return all;
}

Model make_model(DeviceMesh& mesh, const LayoutEntries& layouts, SharedLoss loss,
                 std::vector<SharedMetric> metrics = {}, bool probabilities = false) {
  const auto x = Input({length, features});
  const auto y = Dense({.name = "d",
                        .units = classes,
                        .activation = probabilities ? Activation::softmax : Activation::linear})(x);
  Model model(x, y, spread_over(mesh, layouts), {.seed = 3, .check_plan = true});
  model.compile({.loss = std::move(loss),
                 .optimizer = SGD({.learning_rate = rate}),
                 .metrics = std::move(metrics)});
  return model;
}

SharedLoss crossentropy(std::optional<std::int64_t> ignored) {
  return SparseCategoricalCrossentropy({.from_logits = true, .ignore_class = ignored});
}

}  // namespace

TEST_CASE("the mean is over rows that count, on every mesh and in micro-batches") {
  const std::int64_t ignored = GENERATE(-1, 2, 255);
  const Data data(ignored);
  const bool weighted = GENERATE(false, true);
  const ClassWeights class_weight = GENERATE(ClassWeights(), ClassWeights{{0, 2.5}, {3, 0.5}});
  for (const Spread& spread : spreads()) {
    for (const std::int64_t micro_batches : {1, 3}) {
      DeviceMesh mesh(spread.axes);
      INFO("class " << ignored << " is ignored, rows weighted: " << weighted
                    << ", classes: " << to_text(class_weight) << ", " << to_string(spread.layouts)
                    << " on " << to_string(mesh.shape()) << ", micro-batches: " << micro_batches);
      Model model =
          make_model(mesh, spread.layouts, crossentropy(ignored),
                     {SparseCategoricalAccuracy(), SparseTopKCategoricalAccuracy({.k = classes}),
                      Perplexity({.from_logits = true}), BitsPerByte({.from_logits = true})});
      Reference reference(model, data, weighted, class_weight);
      FitOptions options{
          .epochs = 2, .batch_size = batch, .shuffle = false, .verbose = Verbosity::silent};
      options.class_weight = class_weight;
      options.walk = {.micro_batches = micro_batches, .recompute = micro_batches > 1 ? "d" : ""};
      options.validation = data.source(weighted);
      const History history = model.fit(data.source(weighted), options);
      const auto check = [&](const std::string& prefix, std::size_t at,
                             const Reference::Epoch& expected) {
        const auto logged = [&](const std::string& name) { return history.at(prefix + name)[at]; };
        CHECK(logged("loss") == Approx(expected.loss).epsilon(1e-5));
        CHECK(logged("sparse_categorical_accuracy") ==
              Approx(expected.right / expected.counted).epsilon(1e-12));
        CHECK(logged("sparse_top_k_categorical_accuracy") == 1);
        CHECK(logged("perplexity") == Approx(std::exp(expected.mean_entropy())).epsilon(1e-5));
        CHECK(logged("bits_per_byte") ==
              Approx(expected.mean_entropy() / std::numbers::ln2).epsilon(1e-5));
      };
      for (std::size_t epoch = 0; epoch < 2; ++epoch) {
        check("", epoch, reference.run(true));
        check("val_", epoch, reference.run(false));
      }
      const std::vector<float> kernel = model.variable("d/kernel"), bias = model.variable("d/bias");
      for (std::size_t i = 0; i < kernel.size(); ++i) {
        CHECK(kernel[i] == Approx(reference.kernel[i]).epsilon(1e-5).margin(1e-5));
      }
      for (std::size_t i = 0; i < bias.size(); ++i) {
        CHECK(bias[i] == Approx(reference.bias[i]).epsilon(1e-5).margin(1e-5));
      }
    }
  }
}

TEST_CASE("where no row counts, loss, metrics and gradients are 0") {
  Data data(-1);
  std::fill(data.targets.begin(), data.targets.end(), -1);
  for (const bool probabilities : {false, true}) {
    std::vector<SharedMetric> metrics{Accuracy()};
    if (probabilities) metrics.push_back(CategoricalGeneralizedCrossEntropy({.name = "q"}));
    for (const Spread& spread : spreads()) {
      DeviceMesh mesh(spread.axes);
      Model model = make_model(
          mesh, spread.layouts,
          SparseCategoricalCrossentropy({.from_logits = !probabilities, .ignore_class = -1}),
          metrics, probabilities);
      const std::vector<std::vector<float>> before = variables_of(model);
      const History history =
          model.fit(data.source(false), {.batch_size = batch, .verbose = Verbosity::silent});
      CHECK(history.at("loss")[0] == 0);
      CHECK(history.at("accuracy")[0] == 0);
      CHECK((!probabilities || history.at("q")[0] == 0));
      CHECK(variables_of(model) == before);
    }
  }
}

TEST_CASE("a metric may ignore a class that the loss counts, and more than the loss does") {
  const Data data(2);
  DeviceMesh mesh({{"data", -1}});
  const auto evaluate = [&](std::optional<std::int64_t> by_loss,
                            std::optional<std::int64_t> by_metric) {
    SharedLoss metric = SparseCategoricalCrossentropy(
        {.from_logits = true, .ignore_class = by_metric, .name = "metric"});
    Model model = make_model(mesh, {}, crossentropy(by_loss), {metric});
    return model.evaluate(data.source(false), {.batch_size = samples});
  };
  const Logs neither = evaluate({}, {}), both = evaluate(2, 2);
  CHECK(neither.at("loss") == Approx(neither.at("metric")).epsilon(1e-12));
  CHECK(both.at("loss") == Approx(both.at("metric")).epsilon(1e-6));
  CHECK(std::abs(both.at("loss") - neither.at("loss")) > 1e-4);
  CHECK(evaluate({}, 2).at("loss") == neither.at("loss"));
  CHECK(evaluate({}, 2).at("metric") == both.at("metric"));
  CHECK(evaluate(2, {}).at("metric") == both.at("metric"));
  // Of the rows that are left, those of one more class.
  double counted = 0;
  for (const std::int32_t target : data.targets) counted += target != 2 && target != 3 ? 1 : 0;
  Model model = make_model(mesh, {}, crossentropy(2), {});
  Reference reference(model, data, false, {});
  double entropy = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (!data.counts(row) || reference.target(row) == 3) continue;
    double sum = 0;
    const std::vector<double> z = reference.logits(row);
    for (const double value : z) sum += std::exp(value);
    entropy += std::log(sum) - z[reference.target(row)];
  }
  CHECK(evaluate(2, 3).at("metric") == Approx(entropy / counted).epsilon(1e-6));
}

TEST_CASE("of several outputs each leaves out what its own loss ignores") {
  const Data data(2);
  const std::map<std::string, std::optional<std::int64_t>> ignored{{"a", 2}, {"b", std::nullopt}};
  const auto dense = [](const std::string& name, const SymbolicTensor& x) {
    return Dense({.name = name, .units = classes})(x);
  };
  const auto accuracy = SparseCategoricalAccuracy({.name = "right"});
  const FitOptions options{
      .epochs = 2, .batch_size = batch, .verbose = Verbosity::silent, .walk = {.micro_batches = 3}};
  for (const Spread& spread : spreads()) {
    DeviceMesh mesh(spread.axes);
    INFO(to_string(mesh.shape()));
    const auto x = Input({length, features});
    Model both({x}, {dense("a", x), dense("b", x)}, spread_over(mesh),
               {.seed = 3, .check_plan = true});
    both.compile(
        {.optimizer = SGD({.learning_rate = rate}),
         .outputs = {{"a", {.loss = crossentropy(ignored.at("a")), .metrics = {accuracy}}},
                     {"b", {.loss = crossentropy(ignored.at("b")), .metrics = {accuracy}}}}});
    const std::vector<Array> arrays{Array("x", data.x, {samples, length, features}),
                                    Array("a", data.targets, {samples, length}, FieldRole::target),
                                    Array("b", data.targets, {samples, length}, FieldRole::target)};
    const History history = both.fit(std::make_shared<ArraySource>(arrays), options);
    for (const auto& [name, its] : ignored) {
      const auto alone = Input({length, features});
      Model one(alone, dense(name, alone), spread_over(mesh), {.seed = 3});
      one.compile({.loss = crossentropy(its),
                   .optimizer = SGD({.learning_rate = rate}),
                   .metrics = {accuracy}});
      const History expected = one.fit(data.source(false), options);
      for (std::size_t epoch = 0; epoch < 2; ++epoch) {
        CHECK(history.at(name + "_loss")[epoch] ==
              Approx(expected.at("loss")[epoch]).epsilon(1e-6));
        CHECK(history.at(name + "_right")[epoch] == expected.at("right")[epoch]);
      }
      CHECK(difference(both.variable(name + "/kernel"), one.variable(name + "/kernel"), 1e-6) ==
            "");
    }
  }
}

TEST_CASE("labels are classes or the number that is ignored") {
  Data data(-1);
  DeviceMesh mesh = alone();
  const EvaluateOptions options{.batch_size = batch};
  Model model = make_model(mesh, {}, crossentropy(-1));
  CHECK_NOTHROW(model.evaluate(data.source(false), options));
  data.targets[4] = -2;
  CHECK_THROWS_WITH(model.evaluate(data.source(false), options),
                    Catch::Contains("label -2 is out of range") &&
                        Catch::Contains("whole numbers from 0 to 6, or -1"));
  Model strict = make_model(mesh, {}, crossentropy({}));
  CHECK_THROWS_WITH(strict.evaluate(Data(-1).source(false), options),
                    Catch::Contains("label -1 is out of range"));
  CHECK_THROWS_WITH(crossentropy(std::int64_t{1} << 31), Catch::Contains("ignore_class"));
}

}  // namespace meshwork::ignored_class_test
