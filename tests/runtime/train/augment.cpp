// Training on mixed batches: the same on every mesh, in micro-batches and after a resumption, and
// for nothing but training; and what configurations say of it.
#include "runtime/train/augment.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/flatten.h"
#include "layers/identity.h"
#include "layers/pages.h"
#include "layers/pooling.h"
#include "layers/rescaling.h"
#include "runtime/config/load.h"
#include "runtime/data/cut_mix.h"
#include "runtime/data/mix_up.h"
#include "runtime/data/views.h"
#include "runtime/pages.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/sgd.h"
#include "runtime/train/run_config.h"
#include "tests/support/byte_images.h"
#include "tests/support/one_rank.h"
#include "tests/support/stop_after.h"

namespace meshwork::augment_test {

using namespace meshwork::test;

namespace {

namespace fs = std::filesystem;

// Batches of 13 rows, the last of 4.
constexpr std::int64_t rows = 43, batch = 13, batches = 4, classes = 5;

std::shared_ptr<const Source> samples() {
  return with_one_hot(byte_images(rows, {7, 6, 2}, classes, 3), 1, classes);
}

struct Outcome {
  std::vector<std::vector<float>> variables;
  std::map<std::string, std::vector<double>> history;
  double evaluated = 0;
};

// Two epochs, or, with `stop_after`, the first updates of them.
Outcome trained(Distribution distribution, std::vector<SharedMixing> augment,
                FitOptions options = {}, std::int64_t stop_after = 0) {
  const SymbolicTensor input = Input({7, 6, 2}, "x");
  auto x = Rescaling({.scale = 1.0 / 255})(input);
  x = Conv2D({.name = "conv", .filters = 4, .kernel_size = 3, .activation = Activation::tanh})(x);
  x = Dense({.name = "classes", .units = classes})(Flatten()(x));
  Model model(input, x, std::move(distribution), {.seed = 3, .check_plan = true});
  model.compile({.loss = CategoricalCrossentropy({.from_logits = true}),
                 .optimizer = SGD({.learning_rate = 0.05, .momentum = 0.9}),
                 .metrics = {CategoricalAccuracy()}});
  options.epochs = 2;
  options.batch_size = batch;
  options.validation = samples();
  options.verbose = Verbosity::silent;
  options.augment = std::move(augment);
  StopRequest request;
  if (stop_after > 0) {
    options.stop_request = &request;
    options.callbacks = {std::make_shared<StopAfter>(request, stop_after)};
  }
  Outcome outcome{.history = model.fit(samples(), std::move(options)).history};
  outcome.variables = variables_of(model);
  outcome.evaluated = model.evaluate(samples(), {.batch_size = batch}).at("loss");
  return outcome;
}

void compare(const Outcome& found, const Outcome& expected) {
  for (std::size_t v = 0; v < expected.variables.size(); ++v) {
    CHECK(difference(found.variables[v], expected.variables[v], 1e-4) == "");
  }
  for (const auto& [name, values] : expected.history) {
    for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
      INFO(name << " of epoch " << epoch);
      CHECK(std::abs(found.history.at(name)[epoch] - values[epoch]) < 1e-4);
    }
  }
}

const std::vector<SharedMixing> both{MixUp({.alpha = 0.6}), CutMix()};

struct Setting {
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
};

std::vector<Setting> settings() {
  const std::int64_t ranks = Communicator::world().size();
  const LayoutEntries split{{"x", {"data", "h", {}, {}}}, {"conv/output", {"data", "h", {}, {}}}};
  std::vector<Setting> all{{{{"data", ranks}}, {}},
                           {{{"data", 1}, {"h", ranks}}, split},
                           {{{"data", ranks}}, {{"classes/output", {{}, "data"}}}}};
  if (ranks == 4) all.push_back({{{"data", 2}, {"h", 2}}, split});
  return all;
}

std::string message(const std::string& text) {
  Catalog catalog;
  add_runtime(catalog);
  add_layers(catalog);
  try {
    const RunConfig config(parse_config(text, "run.yaml", {}), catalog);
    const auto source = config.open(DataPart::train);
    if (config.has(DataPart::validation)) (void)config.open(DataPart::validation);
    config.check_data(*source, DataPart::train, config.mesh_shape(1), Mode::train);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Written {
  std::string input = "[4, 4, 1]", features = "shape: [4, 4, 1]", data = "\n  one_hot: true",
              augment = "[MixUp]", loss = "CategoricalCrossentropy", first = "Flatten";
};

std::string written(const Written& of) {
  return "data:\n  train: {kind: synthetic, rows: 20, features: {kind: classes, classes: 3, " +
         of.features + "}, targets: {kind: classes, classes: 3}}" + of.data +
         "\n  batch_size: 5\naugment: " + of.augment + "\nmodel:\n  input: " + of.input +
         "\n  layers:\n    - " + of.first +
         "\n    - Flatten\n    - Dense: {units: 3, activation: softmax}\nloss: " + of.loss +
         "\noptimizer: sgd\n";
}

}  // namespace

TEST_CASE("mixed batches train on every mesh as on one rank") {
  DeviceMesh one = alone();
  const Outcome expected = trained(spread_over(one), both);
  const Outcome plain = trained(spread_over(one), {});
  CHECK(std::abs(expected.history.at("loss")[1] - plain.history.at("loss")[1]) > 1e-2);
  for (const Setting& setting : settings()) {
    for (const std::int64_t micro_batches : {1, 3}) {
      DeviceMesh mesh(setting.axes);
      INFO(meshwork::to_string(mesh.shape())
           << ", " << to_string(setting.layouts) << ", " << micro_batches << " micro-batches");
      compare(trained(spread_over(mesh, setting.layouts, "data"), both,
                      {.walk = {.micro_batches = micro_batches}}),
              expected);
    }
  }
}

TEST_CASE("a run that is cut off inside an epoch goes on with the mixed batches that are left") {
  DeviceMesh mesh({{"data", -1}});
  const Outcome straight = trained(spread_over(mesh), both);
  const fs::path directory = fs::current_path() / "mixed_checkpoints";
  if (mesh.rank() == 0) fs::remove_all(directory);
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  FitOptions options{.checkpoint = {.directory = directory, .resume = Resume::automatic}};
  for (const std::int64_t updates : {std::int64_t{2}, batches + 1}) {
    (void)trained(spread_over(mesh), both, options, updates);
  }
  const Outcome resumed = trained(spread_over(mesh), both, options);
  CHECK(resumed.variables == straight.variables);
  CHECK(resumed.history == straight.history);
}

TEST_CASE("nothing is mixed outside training") {
  DeviceMesh one = alone();
  const Outcome mixed = trained(spread_over(one), both);
  CHECK(mixed.evaluated == Approx(mixed.history.at("val_loss")[1]).epsilon(1e-6));
}

TEST_CASE("what cannot be mixed is an error at the section") {
  using Catch::Contains;
  CHECK(message(written({})) == "");
  CHECK(message(written({.augment = "[{CutMix: {factor: [0.2, 0.7]}}, {MixUp: {alpha: 1}}]"})) ==
        "");
  CHECK_THAT(message(written({.data = "", .loss = "SparseCategoricalCrossentropy"})),
             Contains("run.yaml:4:10: augment: MixUp blends targets, and \"target\" are class "
                      "numbers") &&
                 Contains("`data: {one_hot: true}`"));
  CHECK_THAT(message(written({.data = ""})), Contains("`data: {one_hot: true}`"));
  CHECK_THAT(
      message(written({.loss = "SparseCategoricalCrossentropy"})),
      Contains(
          "run.yaml:3:12: data.one_hot: no loss that takes a value per class has class numbers"));
  CHECK_THAT(message(written({.input = "[16]", .features = "shape: [16]", .augment = "[CutMix]"})),
             Contains("augment: CutMix cuts images (height, width, channels), and samples of input "
                      "\"input\" have the shape (16)"));
  CHECK_THAT(message(written({.input = "{shape: [4], dtype: int32}",
                              .features = "shape: [4]",
                              .first = "Embedding: {input_dim: 3, output_dim: 2}"})),
             Contains("augment: MixUp blends values, and those of input \"input\" are whole "
                      "numbers"));
  CHECK_THAT(message(written({.augment = "[Mixup]"})),
             Contains("unknown augmentation \"Mixup\"; did you mean \"MixUp\"?"));
  CHECK_THAT(message(written({.augment = "[{CutMix: {factor: [0.1, 0.2, 0.3]}}]"})),
             Contains("expected one number, or two, found 3"));
  CHECK_THAT(message(written({.augment = "[{MixUp: {seed: 4}}]"})),
             Contains("there is no option \"seed\": draws follow from the seed of the run"));
  CHECK_THAT(message(written({.augment = "[RandomFlip]"})),
             Contains("augment[0]: there is no augmentation \"RandomFlip\": it is a layer"));
  CHECK_THAT(message(written({.first = "MixUp"})),
             Contains("there is no layer \"MixUp\": augment:"));
}

TEST_CASE("masks of another size than their images are not cut, and weights of places not mixed") {
  const auto x = Input({4, 4, 1});
  const auto objective_of = [&](const SymbolicTensor& y, const Shape& target,
                                std::optional<Shape> weights) {
    return with_objective(make_graph({x}, {y}), {{.loss = MeanSquaredError()}},
                          {.targets = {target}, .weights = std::move(weights)});
  };
  const Objective half = objective_of(MaxPooling2D()(x), {2, 2, 1}, std::nullopt);
  CHECK_NOTHROW(check_augment({MixUp()}, half));
  CHECK_THROWS_WITH(
      check_augment({CutMix()}, half),
      "CutMix cuts images, and \"target\" of shape (2, 2, 1) is not of the same height "
      "and width; a target is a mask of the image's size, or values of the whole");
  const Objective weighted = objective_of(Identity()(x), {4, 4, 1}, Shape{4, 4});
  CHECK_THROWS_WITH(check_augment({MixUp()}, weighted),
                    "MixUp mixes samples, but not their weights, of which each has (4, 4); one is "
                    "expected");
  CHECK_NOTHROW(check_augment({CutMix()}, objective_of(Identity()(x), {4, 4, 1}, Shape{})));
}

TEST_CASE("targets that one_hot makes nothing of are told with their shapes") {
  using Catch::Contains;
  const auto error = [](const std::string& train, const std::string& validation, int units) {
    const auto part = [](const std::string& name, const std::string& targets) {
      return "\n  " + name +
             ": {kind: synthetic, rows: 20, features: {kind: normal, shape: [4]}, targets: {" +
             targets + "}}";
    };
    return message("data:" + part("train", train) + part("validation", validation) +
                   "\n  one_hot: true\n  batch_size: 5\nmodel:\n  input: [4]\n  layers:\n    "
                   "- Dense: {units: " +
                   std::to_string(units) +
                   ", activation: softmax}\nloss: MeanSquaredError\noptimizer: sgd\n");
  };
  const std::string numbers = "kind: classes, classes: 3";
  const auto values = [](int count) {
    return "kind: normal, shape: [" + std::to_string(count) + "]";
  };
  CHECK(error(numbers, numbers, 3) == "");
  CHECK_THAT(
      error(values(5), numbers, 3),
      Contains("data.one_hot: target \"targets\" of the training data has samples of the shape "
               "(5); one_hot makes the shape (3) of class numbers of the shape (1)"));
  CHECK_THAT(error(values(3), numbers, 3),
             Contains("of the training data has samples of the shape (3), as its loss takes them"));
  CHECK_THAT(error(numbers, values(3), 3),
             Contains("of the validation data has samples of the shape (3), as its loss takes"));
  CHECK_THAT(error(values(2), numbers, 1),
             Contains("of the shape (2), and its loss takes one value, not one for each class"));
}

TEST_CASE("a plan shows the values of mixed batches as float32") {
  Catalog catalog;
  add_runtime(catalog);
  add_layers(catalog);
  const auto batch_bytes = [&](const std::string& augment) {
    const RunConfig config(
        parse_config(written({.features = "shape: [4, 4, 1]", .augment = augment}), "run.yaml", {}),
        catalog);
    Blueprint blueprint = config.blueprint(config.mesh_shape(1));
    const auto source = config.open(DataPart::train);
    const Plan& plan = config.plan(blueprint, *source, 5, Mode::train);
    std::int64_t bytes = 0;
    for (const ReportedTensor& fed : config.report(plan, *source, 5, Mode::train, 0).fed) {
      bytes += fed.bytes;
    }
    return bytes;
  };
  CHECK(batch_bytes("[MixUp]") == 5 * (16 + 3) * 4);
  CHECK(batch_bytes("[]") < 5 * (16 + 3) * 4);
}

}  // namespace meshwork::augment_test
