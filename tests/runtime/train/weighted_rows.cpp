// Weights of samples and of classes, against training worked out in double precision, on every mesh.
//
// The model is a softmax of one dense layer. The reference goes through the batches in order, as fit
// does without shuffling, and multiplies each row's loss and gradient by its weight; means are over
// the number of rows, of which the last batch has fewer.
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/dense.h"
#include "runtime/data/array.h"
#include "runtime/train/losses/binary_crossentropy.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::weighted_rows_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t rows = 11, features = 3, classes = 5, batch = 4;
constexpr double rate = 0.5;

struct Samples {
  std::vector<float> x = random_floats(rows * features, 1);
  std::vector<std::int32_t> targets;
  std::vector<float> weights = random_floats(rows, 2, 0.25, 3);

  Samples() {
    for (std::int32_t row = 0; row < rows; ++row) targets.push_back(row * 3 % classes);
    weights[2] = 0;
  }

  [[nodiscard]] std::shared_ptr<const Source> source(bool weighted) const {
    std::vector<Array> arrays{Array("x", x, {rows, features}),
                              Array("t", targets, {rows}, FieldRole::target)};
    if (weighted) arrays.emplace_back("w", weights, Shape{rows, 1}, FieldRole::weight);
    return std::make_shared<ArraySource>(std::move(arrays));
  }
};

std::vector<double> softmax(std::vector<double> z) {
  const double largest = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (double& value : z) sum += value = std::exp(value - largest);
  for (double& value : z) value /= sum;
  return z;
}

/// The layer in double precision.
struct Reference {
  std::vector<double> kernel, bias;

  explicit Reference(Model& model) {
    for (const float value : model.variable("d/kernel")) kernel.push_back(value);
    for (const float value : model.variable("d/bias")) bias.push_back(value);
  }

  [[nodiscard]] std::vector<double> probabilities(const Samples& samples, std::int64_t row) const {
    std::vector<double> z = bias;
    for (std::int64_t i = 0; i < features; ++i) {
      for (std::int64_t k = 0; k < classes; ++k) {
        z[static_cast<std::size_t>(k)] +=
            static_cast<double>(samples.x[static_cast<std::size_t>(row * features + i)]) *
            kernel[static_cast<std::size_t>(i * classes + k)];
      }
    }
    return softmax(std::move(z));
  }

  [[nodiscard]] double loss_of(const Samples& samples, std::int64_t row) const {
    return -std::log(probabilities(
        samples, row)[static_cast<std::size_t>(samples.targets[static_cast<std::size_t>(row)])]);
  }

  /// Rows that are classified rightly.
  [[nodiscard]] bool is_right(const Samples& samples, std::int64_t row) const {
    const std::vector<double> p = probabilities(samples, row);
    return std::max_element(p.begin(), p.end()) - p.begin() ==
           samples.targets[static_cast<std::size_t>(row)];
  }

  /// The weighted mean of the losses.
  [[nodiscard]] double mean(const Samples& samples, const std::vector<double>& weights) const {
    double sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      sum += weights[static_cast<std::size_t>(row)] * loss_of(samples, row);
    }
    return sum / rows;
  }

  struct Epoch {
    double loss = 0, accuracy = 0;
  };
  /// One epoch of plain descent.
  Epoch train(const Samples& samples, const std::vector<double>& weights) {
    Epoch epoch;
    for (std::int64_t first = 0; first < rows; first += batch) {
      const std::int64_t count = std::min(batch, rows - first);
      std::vector<double> dk(kernel.size()), db(bias.size());
      for (std::int64_t row = first; row < first + count; ++row) {
        const double weight = weights[static_cast<std::size_t>(row)];
        epoch.loss += weight * loss_of(samples, row) / rows;
        epoch.accuracy += is_right(samples, row) ? 1.0 / rows : 0;
        std::vector<double> dz = probabilities(samples, row);
        dz[static_cast<std::size_t>(samples.targets[static_cast<std::size_t>(row)])] -= 1;
        for (std::int64_t k = 0; k < classes; ++k) {
          const double slope =
              dz[static_cast<std::size_t>(k)] * weight / static_cast<double>(count);
          db[static_cast<std::size_t>(k)] += slope;
          for (std::int64_t i = 0; i < features; ++i) {
            dk[static_cast<std::size_t>(i * classes + k)] +=
                slope *
                static_cast<double>(samples.x[static_cast<std::size_t>(row * features + i)]);
          }
        }
      }
      for (std::size_t i = 0; i < dk.size(); ++i) kernel[i] -= rate * dk[i];
      for (std::size_t i = 0; i < db.size(); ++i) bias[i] -= rate * db[i];
    }
    return epoch;
  }
};

/// The weights of rows; those of `class_weight` count too.
std::vector<double> weights_of(const Samples& samples, bool weighted,
                               const ClassWeights& class_weight = {}) {
  std::vector<double> weights;
  for (std::size_t row = 0; row < samples.targets.size(); ++row) {
    const auto found = class_weight.find(samples.targets[row]);
    weights.push_back((weighted ? static_cast<double>(samples.weights[row]) : 1.0) *
                      (found == class_weight.end() ? 1.0 : found->second));
  }
  return weights;
}

struct Spread {
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
};

/// Batches split, classes split, and both.
std::vector<Spread> spreads() {
  const int ranks = Communicator::world().size();
  const LayoutEntries split{
      {"d/kernel", {unsharded, "model"}}, {"d/bias", {"model"}}, {"d/output", {"data", "model"}}};
  std::vector<Spread> all{{{{"data", ranks}, {"model", 1}}, {}},
                          {{{"data", 1}, {"model", ranks}}, split}};
  if (ranks == 4) all.push_back({{{"data", 2}, {"model", 2}}, split});
  return all;
}

SharedLoss crossentropy() {
  return SparseCategoricalCrossentropy({.from_logits = true});
}

Model make_model(DeviceMesh& mesh, const LayoutEntries& layouts = {},
                 SharedLoss loss = crossentropy(), std::int64_t units = classes) {
  const auto x = Input({features});
  Model model(x, Dense({.name = "d", .units = units})(x), spread_over(mesh, layouts), {.seed = 3});
  model.compile({.loss = std::move(loss), .optimizer = SGD({.learning_rate = rate})});
  return model;
}

FitOptions quiet() {
  return {.batch_size = batch, .shuffle = false, .verbose = Verbosity::silent};
}

}  // namespace

TEST_CASE("weights of samples and of classes are those of the formula on every mesh") {
  const Samples samples;
  const bool weighted = GENERATE(false, true);
  const ClassWeights class_weight =
      GENERATE(ClassWeights(), ClassWeights{{0, 2.5}, {3, 0}, {1, 0.5}});
  const std::vector<double> weights = weights_of(samples, weighted, class_weight);
  for (const Spread& spread : spreads()) {
    DeviceMesh mesh(spread.axes);
    INFO("samples weighted: " << weighted << ", classes: " << to_text(class_weight) << ", "
                              << to_string(spread.layouts));
    const auto x = Input({features});
    Model model(x, Dense({.name = "d", .units = classes})(x), spread_over(mesh, spread.layouts),
                {.seed = 3});
    model.compile({.loss = crossentropy(),
                   .optimizer = SGD({.learning_rate = rate}),
                   .metrics = {SparseCategoricalAccuracy()}});
    Reference reference(model);
    FitOptions options = quiet();
    options.epochs = 2;
    options.class_weight = class_weight;
    options.validation = samples.source(weighted);
    const History history = model.fit(samples.source(weighted), options);
    for (std::size_t epoch = 0; epoch < 2; ++epoch) {
      const Reference::Epoch expected = reference.train(samples, weights);
      CHECK(history.at("loss")[epoch] == Approx(expected.loss).epsilon(1e-5));
      // Metrics are not weighted.
      CHECK(history.at("sparse_categorical_accuracy")[epoch] ==
            Approx(expected.accuracy).epsilon(1e-12));
      // Classes weigh in training alone.
      CHECK(history.at("val_loss")[epoch] ==
            Approx(reference.mean(samples, weights_of(samples, weighted))).epsilon(1e-5));
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

TEST_CASE("data without weights are evaluated as before, whatever the model was fitted on") {
  const Samples samples;
  DeviceMesh mesh({{"data", -1}});
  Model plain = make_model(mesh);
  const Reference reference(plain);
  const double before = plain.evaluate(samples.source(false), {.batch_size = batch}).at("loss");
  const double weighted = plain.evaluate(samples.source(true), {.batch_size = batch}).at("loss");
  CHECK(before == Approx(reference.mean(samples, weights_of(samples, false))).epsilon(1e-5));
  CHECK(weighted == Approx(reference.mean(samples, weights_of(samples, true))).epsilon(1e-5));
  // The objective has weights now; samples without any weigh 1, to the same bit.
  CHECK(plain.evaluate(samples.source(false), {.batch_size = batch}).at("loss") == before);
  // Weights of validation alone.
  Model model = make_model(mesh);
  FitOptions options = quiet();
  options.validation = samples.source(true);
  const History validated = model.fit(samples.source(false), options);
  Reference trained(plain);
  CHECK(validated.at("loss")[0] ==
        Approx(trained.train(samples, weights_of(samples, false)).loss).epsilon(1e-5));
  CHECK(validated.at("val_loss")[0] ==
        Approx(trained.mean(samples, weights_of(samples, true))).epsilon(1e-5));
}

TEST_CASE("what is fitted anew without weights of classes has none") {
  const Samples samples;
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh);
  Reference reference(model);
  FitOptions options = quiet();
  options.class_weight = {{2, 4}};
  (void)model.fit(samples.source(false), options);
  (void)reference.train(samples, weights_of(samples, false, options.class_weight));
  options.class_weight.clear();
  const double loss = model.fit(samples.source(false), options).at("loss")[0];
  CHECK(loss == Approx(reference.train(samples, weights_of(samples, false)).loss).epsilon(1e-5));
}

TEST_CASE("steps on batches of one's own take weights too") {
  const Samples samples;
  const std::vector<float> targets(samples.targets.begin(), samples.targets.end());
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh);
  const Reference reference(model);
  BatchView view{.rows = rows, .inputs = {samples.x}, .targets = {targets}};
  const double plain = model.evaluate_step(view).at("loss");
  view.weights = samples.weights;
  CHECK(plain == Approx(reference.mean(samples, weights_of(samples, false))).epsilon(1e-5));
  for (int time = 0; time < 2; ++time) {
    CHECK(model.evaluate_step(view).at("loss") ==
          Approx(reference.mean(samples, weights_of(samples, true))).epsilon(1e-5));
  }
  CHECK(model.train_step(view).at("loss") ==
        Approx(reference.mean(samples, weights_of(samples, true))).epsilon(1e-5));
  view.weights = view.weights.first(3);
  CHECK_THROWS_WITH(model.evaluate_step(view),
                    Catch::Contains("\"sample_weights\"") && Catch::Contains("3 were given"));
}

TEST_CASE("a class is that of a number, of the largest weight, or of yes and no") {
  const Samples samples;
  const ClassWeights class_weight{{0, 2}, {1, 0.5}};
  DeviceMesh mesh({{"data", -1}});
  std::vector<float> one_hot(rows * classes), yes(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto number = static_cast<std::size_t>(samples.targets[row]);
    one_hot[row * classes + number] = 0.75f;
    one_hot[row * classes + (number + 1) % classes] = 0.25f;
    yes[row] = number % 2 == 1 ? 1.0f : 0.0f;
  }
  // As weights of samples, which give the same numbers.
  const auto same = [&](const SharedLoss& loss, std::int64_t units, const Array& targets,
                        const std::vector<float>& weights) {
    std::vector<std::vector<float>> variables[2];
    double losses[2];
    for (const bool by_class : {false, true}) {
      Model model = make_model(mesh, {}, loss, units);
      std::vector<Array> arrays{Array("x", samples.x, {rows, features}), targets};
      if (!by_class) arrays.emplace_back("w", weights, Shape{rows}, FieldRole::weight);
      FitOptions options = quiet();
      if (by_class) options.class_weight = class_weight;
      losses[by_class ? 1 : 0] =
          model.fit(std::make_shared<ArraySource>(std::move(arrays)), options).at("loss")[0];
      variables[by_class ? 1 : 0] = variables_of(model);
    }
    CHECK(losses[0] == losses[1]);
    CHECK(variables[0] == variables[1]);
  };
  std::vector<float> of_numbers, of_yes;
  for (const std::int32_t number : samples.targets) {
    of_numbers.push_back(number == 0 ? 2.0f : (number == 1 ? 0.5f : 1.0f));
    of_yes.push_back(number % 2 == 1 ? 0.5f : 2.0f);
  }
  same(CategoricalCrossentropy({.from_logits = true}), classes,
       Array("t", one_hot, {rows, classes}, FieldRole::target), of_numbers);
  same(SparseCategoricalCrossentropy({.from_logits = true}), classes,
       Array("t", samples.targets, {rows, 1}, FieldRole::target), of_numbers);
  same(BinaryCrossentropy({.from_logits = true}), 1, Array("t", yes, {rows, 1}, FieldRole::target),
       of_yes);
  same(BinaryCrossentropy({.from_logits = true}), 1, Array("t", yes, {rows}, FieldRole::target),
       of_yes);
}

TEST_CASE("weights that do not fit are errors on all ranks") {
  const Samples samples;
  DeviceMesh mesh({{"data", -1}});
  FitOptions options = quiet();
  options.class_weight = {{7, 2}};
  Model model = make_model(mesh);
  CHECK_THROWS_WITH(model.fit(samples.source(false), options),
                    Catch::Contains("class 7 has a weight, but there are 5 classes, from 0 to 4"));
  options.class_weight = {{1, -2}};
  CHECK_THROWS_WITH(
      model.fit(samples.source(false), options),
      "fit: class_weight: expected a number between 0 and the largest float32, found -2");
  options.class_weight = {{0, 1}};
  Model line = make_model(mesh, {}, MeanSquaredError(), 1);
  const auto values = std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", samples.x, {rows, features}),
                         Array("t", samples.weights, {rows}, FieldRole::target)});
  CHECK_THROWS_WITH(
      line.fit(values, options),
      Catch::Contains("the targets of the loss \"mean_squared_error\" are no classes"));
  Model several = make_model(mesh, {}, BinaryCrossentropy({.from_logits = true}), 2);
  const auto pairs = std::make_shared<ArraySource>(std::vector<Array>{
      Array("x", samples.x, {rows, features}),
      Array("t", random_floats(rows * 2, 4, 0, 1), {rows, 2}, FieldRole::target)});
  CHECK_THROWS_WITH(several.fit(pairs, options), Catch::Contains("2 yes-or-no values a row"));
  Model shaped = make_model(mesh);
  const auto wide = std::make_shared<ArraySource>(std::vector<Array>{
      Array("x", samples.x, {rows, features}),
      Array("t", samples.targets, {rows}, FieldRole::target),
      Array("w", random_floats(rows * 2, 4, 0, 1), {rows, 2}, FieldRole::weight)});
  CHECK_THROWS_WITH(shaped.fit(wide, quiet()),
                    Catch::Contains("expected a weight for each sample, of shape (batch), found "
                                    "(batch, 2)"));
  std::vector<float> negative = samples.weights;
  negative[5] = -1;
  const auto bad = std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", samples.x, {rows, features}),
                         Array("t", samples.targets, {rows}, FieldRole::target),
                         Array("w", negative, {rows}, FieldRole::weight)});
  if (mesh.all().size() == 1) {
    CHECK_THROWS_WITH(shaped.fit(bad, quiet()),
                      "array \"w\": sample 5: the weight -1 is no weight; the weights of samples "
                      "are finite and not negative");
  }
}

TEST_CASE("a run with weights goes on from a checkpoint, and other weights are told") {
  const Samples samples;
  DeviceMesh mesh({{"data", -1}});
  const std::filesystem::path directory = std::filesystem::current_path() / "weighted";
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  if (mesh.rank() == 0) std::filesystem::remove_all(directory);
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  FitOptions options = quiet();
  options.class_weight = {{2, 4}};
  options.epochs = 2;
  Model straight = make_model(mesh);
  (void)straight.fit(samples.source(true), options);
  options.checkpoint = {.directory = directory, .every_epochs = 1, .resume = Resume::automatic};
  options.epochs = 1;
  Model first = make_model(mesh);
  (void)first.fit(samples.source(true), options);
  options.epochs = 2;
  Model second = make_model(mesh);
  (void)second.fit(samples.source(true), options);
  CHECK(second.iteration() == straight.iteration());
  CHECK(variables_of(second) == variables_of(straight));

  options.epochs = 3;
  options.class_weight = {{2, 5}};
  options.verbose = Verbosity::lines;
  Model other = make_model(mesh);
  std::ostringstream said;
  std::streambuf* const before = std::cout.rdbuf(said.rdbuf());
  try {
    (void)other.fit(samples.source(true), options);
  } catch (...) {
    std::cout.rdbuf(before);
    throw;
  }
  std::cout.rdbuf(before);
  if (mesh.rank() == 0) {
    CHECK_THAT(said.str(), Catch::Contains("training data: ") &&
                               Catch::Contains("weights of classes {2: 5}, was ") &&
                               Catch::Contains("weights of classes {2: 4}"));
  }
}

TEST_CASE("a plan shows the weights that are fed") {
  const Samples samples;
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh);
  const PlanReport report = model.plan(samples.source(true), batch);
  std::vector<std::string> fed;
  for (const ReportedTensor& tensor : report.fed) fed.push_back(tensor.path);
  CHECK(fed.size() == 3);
  CHECK(std::count(fed.begin(), fed.end(), "sample_weights") == 1);
}

}  // namespace meshwork::weighted_rows_test
