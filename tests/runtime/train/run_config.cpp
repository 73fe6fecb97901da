// Runs read from configurations: what they are made of, and that it trains as on one rank.
#include "runtime/train/run_config.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "layers/pages.h"
#include "runtime/config/load.h"
#include "runtime/pages.h"
#include "runtime/train/callbacks/model_checkpoint.h"
#include "runtime/train/engine/engine.h"
#include "tests/runtime/data/numpy.h"
#include "tests/support/added_device.h"
#include "tests/support/catch.h"

namespace meshwork::run_config_test {

namespace {

const std::string branches = R"(
seed: 3
mesh: {data: -1}
layout:
  .*/kernel: [~, data]
  joined/output: [data, ~]
data:
  train:
    kind: synthetic
    rows: 50
    features: {extra: {kind: uniform, shape: [3]}, image: {shape: [5, 5, 1]}}
    targets: {kind: linear_classes, classes: 7}
  batch_size: 16
  cache: true
model:
  inputs: {image: [5, 5], extra: [3]}
  layers:
    - Flatten: {name: flat, inputs: image}
    - Dense: {name: left, units: 13, activation: relu, kernel_regularizer: {L2: 0.01}}
    - Dense: {name: right, units: 13, activation: tanh, inputs: extra}
    - Add: {name: sum, inputs: [left, right]}
    - Concatenate: {name: joined, inputs: [sum, flat]}
    - Dropout: {rate: 0.2}
    - Dense: {name: scores, units: 7}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
optimizer: {Adam: {learning_rate: 0.01, global_clipnorm: 1.0}}
metrics: [accuracy]
fit: {epochs: 2, validation_split: 0.2, validation_batch_size: 10, verbose: silent}
)";

RunConfig run(const std::string& text, const std::vector<ConfigOverride>& overrides = {}) {
  Catalog catalog;
  add_runtime(catalog);
  add_layers(catalog);
  return {parse_config(text, "run.yaml", overrides), catalog};
}

History trained(const RunConfig& config, DeviceMesh& mesh) {
  const TrainingData data = config.open_training();
  config.check_data(*data.training, DataPart::train, mesh.shape(), Mode::train);
  config.check_samples(data.training, DataPart::train, Mode::train, mesh.all());
  Model model = config.make_model(mesh);
  FitOptions options = config.fit_options();
  options.validation = data.validation;
  options.validation_split = 0;
  return model.fit(data.training, std::move(options));
}

}  // namespace

TEST_CASE("a run of branches trains on all ranks as on one") {
  const RunConfig config = run(branches);
  DeviceMesh all = config.mesh();
  DeviceMesh alone({{"data", 1}}, Communicator::self());
  const History together = trained(config, all);
  const History reference = trained(config, alone);
  CHECK(reference.epoch.size() == 2);
  for (const auto& [name, values] : reference.history) {
    REQUIRE(together.at(name).size() == values.size());
    for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
      INFO(name << " of epoch " << epoch);
      // Sums of float32 in another order: some rounding errors of 6e-8 a step, over 6 steps.
      CHECK(together.at(name)[epoch] == Approx(values[epoch]).epsilon(1e-4));
    }
  }
}

TEST_CASE("the sections of a run arrive where they belong") {
  const RunConfig config = run(branches, {"seed=9", "batch_axis=~", "mesh={data: -1, model: 1}",
                                          "fit.steps_per_epoch=2", "fit.validation_freq=3"});
  CHECK(config.options().seed == 9);
  CHECK(config.batch_size() == 16);
  CHECK(config.evaluation_batch_size() == 10);
  CHECK(config.fit_options().epochs == 2);
  CHECK(config.fit_options().steps_per_epoch == 2);
  CHECK(config.fit_options().validation_freq == 3);
  CHECK(config.has(DataPart::train));
  CHECK(!config.has(DataPart::test));
  CHECK(config.least_ranks() == 1);
  const MeshShape mesh = config.mesh_shape(6);
  CHECK(mesh.size(0) == 6);
  CHECK(!config.batch_axis(mesh));
  CHECK(config.layouts(mesh).size() == 2);
  const TrainingData data = config.open_training();
  CHECK(data.training->rows() == 40);
  CHECK(data.validation->rows() == 10);
  CHECK(data.training->field(0).name == "image");
}

// 20 samples of 3 numbers, of 4 classes, with `more` in the data.
static std::string classified(const std::string& more, const std::string& rest) {
  return "data:\n"
         "  train: {kind: synthetic, rows: 20, features: {shape: [3]},\n"
         "          targets: {kind: classes, classes: 4}" +
         more +
         "}\n"
         "  batch_size: 5\n"
         "model: {input: [3], layers: [{Dense: {units: 4}}]}\n" +
         rest;
}

TEST_CASE("numbers of rows and classes in float64 are not rounded") {
  // Every rank writes a file of its own; of rows there are 2^24 + 1, and 3 classes.
  const test::Folder folder(fmt::format("exact{}", Communicator::world().rank()));
  const auto check = [&](double token, double label) {
    const auto write = [&](const std::string& name, std::vector<double> values, double last) {
      values.back() = last;
      test::write_file(folder / name,
                       test::npy_bytes(test::npy_header("<f8", "(4,)"), test::elements_of(values)));
      return folder / name;
    };
    const RunConfig config = run(
        "data: {train: {kind: npy, features: " + write("x.npy", {0, 1, 2, 3}, token) +
        ", targets: " + write("y.npy", {0, 1, 2, 0}, label) +
        "}, batch_size: 4}\n"
        "model: {input: {shape: [1], dtype: int32}, layers: [{Embedding: {input_dim: 16777217,\n"
        "        output_dim: 1}}, {Flatten: }, {Dense: {units: 3}}]}\n"
        "loss: {SparseCategoricalCrossentropy: {from_logits: true}}\n");
    DeviceMesh mesh = config.mesh();
    const auto source = config.open(DataPart::train);
    config.check_data(*source, DataPart::train, mesh.shape(), Mode::train);
    config.check_samples(source, DataPart::train, Mode::train, mesh.all());
  };
  check(16777216, 2);
  CHECK_THROWS_WITH(check(16777217, 2), Catch::Contains("x.npy: sample 3: category 16777217 is"));
  CHECK_THROWS_WITH(check(2.00000001, 2), Catch::Contains("sample 3: category 2.00000001 is"));
  CHECK_THROWS_WITH(check(2, 1.00000001), Catch::Contains("y.npy: sample 3: label 1.00000001 is"));
}

TEST_CASE("weights of samples and classes that do not fit are told at their places") {
  const std::string loss = "loss: {SparseCategoricalCrossentropy: {from_logits: true}}\n";
  const auto check = [](const std::string& text) {
    const RunConfig config = run(text);
    DeviceMesh mesh = config.mesh();
    const auto source = config.open(DataPart::train);
    config.check_data(*source, DataPart::train, mesh.shape(), Mode::train);
    config.check_samples(source, DataPart::train, Mode::train, mesh.all());
  };
  check(classified(", sample_weights: {kind: uniform, shape: [1], low: 0, high: 2}",
                   loss + "fit: {class_weight: {0: 1, 3: 0.5}}\n"));
  CHECK_THROWS_WITH(check(classified(", sample_weights: {kind: uniform, shape: [2]}", loss)),
                    Catch::StartsWith("run.yaml:3:65: data.train.sample_weights: ") &&
                        Catch::EndsWith("expected a weight for each sample, of shape (batch), "
                                        "found (batch, 2)"));
  CHECK_THROWS_WITH(
      check(classified(", sample_weights: {kind: uniform, shape: [1], low: -2, high: -1}", loss)),
      Catch::Contains("run.yaml:3:65: data.train.sample_weights: ") &&
          Catch::Contains("sample 0: the weight -1") && Catch::Contains("finite and not negative"));
  CHECK_THROWS_WITH(
      check(classified("", loss + "fit: {class_weight: {4: 2}}\n")),
      Catch::StartsWith("run.yaml:7:21: fit.class_weight: ") &&
          Catch::EndsWith("class 4 has a weight, but there are 4 classes, from 0 to 3"));
  CHECK_THROWS_WITH(
      check("data: {train: {kind: synthetic, rows: 20, features: {shape: [3]},\n"
            "               targets: {shape: [4]}}, batch_size: 5}\n"
            "model: {input: [3], layers: [{Dense: {units: 4}}]}\n"
            "loss: mse\n"
            "fit: {class_weight: {0: 2}}\n"),
      Catch::StartsWith("run.yaml:5:21: fit.class_weight: ") && Catch::Contains("are no classes"));
  CHECK_THROWS_WITH(
      run(classified("", loss + "fit: {class_weight: {1: -2}}\n")),
      Catch::StartsWith("run.yaml:7:25: fit.class_weight.1: ") &&
          Catch::Contains("expected a number between 0 and the largest float32, found -2"));
  CHECK_THROWS_WITH(check(classified("", loss + "fit: {class_weight: {one: 2}}\n")),
                    Catch::StartsWith("run.yaml:7:22: fit.class_weight") &&
                        Catch::Contains("expected the number of a class, counted from 0, found"));
  const RunConfig weighed =
      run(classified("", loss + "fit: {class_weight: {0: 2}}\n"), {"fit.class_weight.1=5"});
  CHECK(weighed.fit_options().class_weight == ClassWeights{{0, 2}, {1, 5}});
}

// Two outputs of one trunk; `rest` is what they are trained by.
std::string of_two_outputs(const std::string& rest) {
  return R"(
seed: 3
data:
  train:
    kind: synthetic
    rows: 40
    features: {shape: [5]}
    targets: {price: {shape: [1]}, kind: {kind: classes, classes: 3}}
  batch_size: 16
model:
  input: [5]
  layers:
    - Dense: {name: trunk, units: 8, activation: relu}
    - Dense: {name: price, units: 1}
    - Dense: {name: kind, units: 3, inputs: trunk}
  outputs: [price, kind]
optimizer: SGD
fit: {epochs: 2, verbose: silent, validation_split: 0.25}
)" + rest;
}

TEST_CASE("several outputs have losses, weights and metrics by their names") {
  const std::string losses =
      "loss: {price: mse, kind: {SparseCategoricalCrossentropy: {from_logits: true}}}\n";
  DeviceMesh mesh({{"data", -1}});
  const auto fitted = [&](const std::string& rest) {
    return trained(run(of_two_outputs(rest)), mesh);
  };
  const History plain = fitted(losses);
  const History weighed =
      fitted(losses + "loss_weights: {price: 0.25}\nmetrics: {kind: [accuracy], price: [mae]}\n");
  for (const auto& [history, weight] : {std::pair(&plain, 1.0), std::pair(&weighed, 0.25)}) {
    CHECK(history->at("val_loss")[1] ==
          Approx(weight * history->at("val_price_loss")[1] + history->at("val_kind_loss")[1])
              .epsilon(1e-12));
  }
  CHECK(weighed.at("val_kind_accuracy").size() == 2);
  CHECK(weighed.at("price_mae").size() == 2);
  // The mean absolute error of each.
  const History each =
      trained(run(of_two_outputs("loss: mae\n"), {"data.train.targets.kind={shape: [3]}"}), mesh);
  CHECK(each.at("loss")[0] ==
        Approx(each.at("price_loss")[0] + each.at("kind_loss")[0]).epsilon(1e-12));
  // An output without a loss has no targets.
  const History one =
      trained(run(of_two_outputs(losses),
                  {"loss.price=~", "data.train.targets={kind: {kind: classes, classes: 3}}"}),
              mesh);
  CHECK(one.history.size() == 2);
  CHECK(one.at("loss").size() == 2);
}

TEST_CASE("what does not fit several outputs is told at its place") {
  const std::string losses = "loss: {price: mse, kind: sparse_categorical_crossentropy}\n";
  const auto message = [](const std::string& rest, const std::vector<ConfigOverride>& overrides) {
    try {
      const RunConfig config = run(of_two_outputs(rest), overrides);
      const DeviceMesh mesh = config.mesh();
      const auto source = config.open(DataPart::train);
      config.check_data(*source, DataPart::train, mesh.shape(), Mode::train);
      config.check_callbacks(*source, true);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  using Catch::Contains;
  CHECK(message(losses, {}) == "nothing");
  CHECK(message(losses, {"checkpoint.directory=nowhere", "checkpoint.best=val_price_loss"}) ==
        "nothing");
  CHECK_THAT(message("loss: {price: mse}\n", {}),
             Contains("run.yaml:19:7: loss: there is no loss for the output \"kind\""));
  CHECK_THAT(message("loss: {price: mse, knd: mse}\n", {}),
             Contains("run.yaml:19:20: loss: unknown output of the model \"knd\"; did you mean "
                      "\"kind\"?"));
  CHECK_THAT(message("loss: {price: ~, kind: ~}\n", {}), Contains("no output has a loss"));
  CHECK_THAT(message("loss: {price: mse, kind: mean_squared}\n", {}),
             Contains("run.yaml:19:26: loss.kind: unknown loss"));
  CHECK_THAT(message(losses + "metrics: [mae]\n", {}),
             Contains("run.yaml:20:10: metrics: the model has the outputs \"price\" and \"kind\""));
  CHECK_THAT(message(losses + "metrics: {kind: [top_k]}\n", {}),
             Contains("run.yaml:20:18: metrics.kind[0]: unknown metric"));
  CHECK_THAT(message(losses + "metrics: {kind: [categorical_accuracy]}\n", {}),
             Contains("run.yaml:20:18: metrics.kind[0]: expected a weight for each class"));
  CHECK_THAT(
      message(losses + "loss_weights: {price: .inf}\n", {}),
      Contains("run.yaml:20:23: loss_weights.price: expected a number that float32 can hold"));
  CHECK_THAT(message("loss: {price: ~, kind: mse}\nloss_weights: {price: 2}\n", {}),
             Contains("the output \"price\" has no loss"));
  CHECK_THAT(message(losses, {"data.train.targets={kind: normal}"}),
             Contains("there is no target for the model's output \"price\""));
  CHECK_THAT(message(losses, {"data.train.targets.colour={shape: [1]}"}),
             Contains("unknown output of the model with a loss \"colour\""));
  CHECK_THAT(message(losses, {"data.train.targets.price={shape: [2]}"}),
             Contains("run.yaml:19:15: loss.price: expected targets of shape (batch, 1)"));
  CHECK_THAT(message(losses, {"fit.class_weight.0=2"}),
             Contains("--set fit.class_weight.0: fit.class_weight: class weights need"));
  CHECK_THAT(message("loss: mse\nloss_weights: {price: 2}\n", {"model.outputs=[kind]"}),
             Contains("this layer's output is unused"));
}

TEST_CASE("a run with weights trains on all ranks as on one, and says so in its plan") {
  const RunConfig config =
      run(classified(", sample_weights: {kind: uniform, shape: [1], low: 0, high: 2}",
                     "mesh: {data: -1}\n"
                     "loss: {SparseCategoricalCrossentropy: {from_logits: true}}\n"
                     "optimizer: {Adam: {learning_rate: 0.01}}\n"
                     "metrics: [accuracy]\n"
                     "fit: {class_weight: {0: 3}, validation_split: 0.4, verbose: silent}\n"));
  DeviceMesh all = config.mesh();
  DeviceMesh alone({{"data", 1}}, Communicator::self());
  const History together = trained(config, all);
  const History reference = trained(config, alone);
  for (const auto& [name, values] : reference.history) {
    CHECK(together.at(name)[0] == Approx(values[0]).epsilon(1e-4));
  }
  Blueprint blueprint = config.blueprint(config.mesh_shape(2));
  const auto source = config.open(DataPart::train);
  const Plan& plan = config.plan(blueprint, *source, 5, Mode::train);
  const std::string text = to_json(config.report(plan, *source, 5, Mode::train, 0));
  CHECK_THAT(text, Catch::Contains("\"path\": \"sample_weights\""));
  const auto has_row_weights = [&] {
    return std::any_of(plan.operations.begin(), plan.operations.end(),
                       [](const auto& one) { return one.path == "loss/row_weights"; });
  };
  CHECK(has_row_weights());
}

TEST_CASE("a plan for training has the weights that only validation has") {
  const std::string loss = "loss: {SparseCategoricalCrossentropy: {from_logits: true}}\n";
  const std::string text = classified("", loss);
  std::string set = text.substr(text.find("{kind: synthetic"));
  set = set.substr(0, set.find("\n  batch_size"));
  set.insert(set.rfind('}'), ", sample_weights: {kind: uniform, shape: [1], low: 0, high: 2}");
  const RunConfig config =
      run(std::string(text).replace(text.find("  batch_size"), 0, "  validation: " + set + "\n"));
  const TrainingData data = config.open_training();
  REQUIRE(config.weighs_samples(DataPart::validation));
  CHECK_FALSE(config.weighs_samples(DataPart::train));
  Blueprint blueprint = config.blueprint(config.mesh_shape(1));
  const auto shown = [&](const Source* validation) {
    const Plan& plan = config.plan(blueprint, *data.training, 5, Mode::train, validation);
    return to_json(config.report(plan, *data.training, 5, Mode::train, 0));
  };
  const std::string weights = "\"path\": \"sample_weights\"";
  CHECK_THAT(shown(nullptr), !Catch::Contains(weights));
  CHECK_THAT(shown(data.validation.get()), Catch::Contains(weights));
}

TEST_CASE("without the remainder an epoch is the whole batches") {
  // Of 40 samples in batches of 16 the last has 8.
  const RunConfig dropped = run(branches, {"data.drop_remainder=true", "data.prefetch=false"});
  CHECK(!dropped.fit_options().prefetch);
  CHECK(steps_of_epoch(dropped.fit_options(), 40) == 2);
  CHECK(steps_of_epoch(dropped.fit_options(), 48) == 3);
  CHECK(steps_of_epoch(run(branches).fit_options(), 40) == 3);
  CHECK(steps_of_epoch(run(branches, {"fit.steps_per_epoch=2"}).fit_options(), 40) == 2);
  DeviceMesh mesh = dropped.mesh();
  const History history = trained(dropped, mesh);
  CHECK(history.params.steps == 2);
  CHECK(history.at("loss") == trained(run(branches, {"fit.steps_per_epoch=2"}), mesh).at("loss"));
}

TEST_CASE("Keras's numbers say how much a run prints") {
  CHECK(run(branches, {"fit.verbose=0"}).fit_options().verbose == Verbosity::silent);
  CHECK(run(branches, {"fit.verbose=1"}).fit_options().verbose == Verbosity::bar);
  CHECK(run(branches, {"fit.verbose=2"}).fit_options().verbose == Verbosity::lines);
  CHECK_THROWS_WITH(run(branches, {"fit.verbose=3"}), Catch::Contains("silent, 0, 1, 2, found 3"));
}

TEST_CASE("the batch axis is the first of the mesh unless another is named") {
  const RunConfig first = run(branches, {"mesh={data: 2, model: 2}"});
  CHECK(first.batch_axis(first.mesh_shape(4)) == 0);
  const RunConfig second = run(branches, {"mesh={data: 2, model: 2}", "batch_axis=model"});
  CHECK(second.batch_axis(second.mesh_shape(4)) == 1);
}

TEST_CASE("the precision of products is told with the plan") {
  for (const std::string name : {"float32", "bfloat16"}) {
    const RunConfig config = run(branches, {"precision=" + name});
    CHECK(name_of(config.options().precision) == name);
    const auto source = config.open(DataPart::train);
    Blueprint blueprint = config.blueprint(config.mesh_shape(2));
    const PlanReport report = config.report(config.plan(blueprint, *source, 16, Mode::train),
                                            *source, 16, Mode::train, 0);
    CHECK_THAT(to_json(report), Catch::Contains("\"precision\": \"" + name + "\""));
    CHECK((to_text(report).find("products in bfloat16") != std::string::npos) ==
          (name == "bfloat16"));
  }
}

TEST_CASE("a plan for a mesh that is not there is the plan of its ranks") {
  const RunConfig config = run(branches);
  const MeshShape mesh = config.mesh_shape(13);
  const auto source = config.open(DataPart::train);
  Blueprint blueprint = config.blueprint(mesh);
  const Plan& plan = config.plan(blueprint, *source, 26, Mode::train);
  CHECK(blueprint.warnings.empty());
  const PlanReport report = config.report(plan, *source, 26, Mode::train, 12);
  CHECK(report.mesh == mesh);
  CHECK(report.rank == 12);
  // left/kernel (25, 13) by columns on 13 ranks: the last has the last column.
  for (const ReportedTensor& variable : report.variables) {
    if (variable.path == "left/kernel") {
      CHECK(variable.block == Block{{0, 25}, {12, 13}});
      CHECK(variable.bytes == 25 * 4);
    }
  }
}

TEST_CASE("data whose files are not here are planned as the model and its losses expect them") {
  const auto plan_text = [](const std::string& data) {
    const RunConfig config = run(R"(
data: {train: )" + data + R"(, batch_size: 12}
model:
  inputs: {image: [4, 4], extra: [3]}
  layers:
    - Flatten: {name: flat, inputs: image}
    - Concatenate: {name: both, inputs: [flat, extra]}
    - Dense: {name: kind, units: 5, inputs: both}
    - Dense: {name: price, units: 2, inputs: both}
  outputs: [kind, price]
loss: {kind: {SparseCategoricalCrossentropy: {from_logits: true}}, price: mse}
optimizer: SGD
)");
    const MeshShape mesh({{"data", 2}}, 2);
    std::vector<std::string> missing;
    ConfigErrors errors;
    const TrainingData opened = config.open_training(errors, {.missing = &missing});
    errors.raise();
    config.check_data(*opened.training, DataPart::train, mesh, Mode::train);
    config.check_samples(opened.training, DataPart::train, Mode::train, Communicator::world());
    Blueprint blueprint = config.blueprint(mesh);
    const Plan& plan = config.plan(blueprint, *opened.training, 12, Mode::train);
    const std::string text =
        to_text(config.report(plan, *opened.training, 12, Mode::train, 0), 100);
    return std::pair(text, missing);
  };
  const auto [known, none] = plan_text(R"({kind: synthetic, rows: 24,
    features: {image: {shape: [4, 4]}, extra: {shape: [3]}},
    targets: {kind: {kind: classes, classes: 5}, price: {kind: normal, shape: [2]}}})");
  CHECK(none.empty());
  const auto [stated, missing] =
      plan_text(R"({kind: npy, features: {image: not/here.npy, extra: not/here2.npy},
    targets: {kind: not/kind.npy, price: not/price.npy}})");
  CHECK(stated == known);
  REQUIRE(missing.size() == 1);
  CHECK_THAT(missing.front(), Catch::StartsWith("run.yaml:2:") &&
                                  Catch::Contains("here.npy: there is no such file; planned with"));
  // What else is wrong stays an error.
  CHECK_THROWS_WITH(plan_text("{kind: npy, features: not/here.npy, targets: not/here.npy}"),
                    Catch::Contains("the model has 2 inputs"));
}

TEST_CASE("ModelCheckpoint among the callbacks is read as the section for checkpoints") {
  const auto with = [](const std::string& callbacks, const std::string& section = "") {
    const std::string open = branches.substr(0, branches.rfind('}'));
    return run(fmt::format("{}, callbacks: [{}]}}\n{}", open, callbacks, section));
  };
  const auto checkpoints = [&](const std::string& callback, const std::string& section = "") {
    return with("TerminateOnNaN, " + callback, section).fit_options();
  };
  const FitOptions every = checkpoints("ModelCheckpoint: {filepath: states}");
  CHECK(every.callbacks.size() == 1);
  CHECK(every.checkpoint.directory == "states");
  CHECK(every.checkpoint.keep == 3);
  CHECK(every.checkpoint.best.empty());
  CHECK(!every.checkpoint.every_steps);
  const FitOptions best = checkpoints(
      "ModelCheckpoint: {filepath: a/b, monitor: val_accuracy, save_best_only: true, save_freq: "
      "7}");
  CHECK(best.checkpoint.directory == "a/b");
  CHECK(best.checkpoint.keep == 1);
  CHECK(best.checkpoint.best == "val_accuracy");
  CHECK(best.checkpoint.every_steps == 7);
  const FitOptions both = checkpoints("ModelCheckpoint: {filepath: states, save_freq: 7}",
                                      "checkpoint: {resume: auto, every_steps: 9}\n");
  CHECK(both.checkpoint.directory == "states");
  CHECK(both.checkpoint.resume == Resume::automatic);
  CHECK(both.checkpoint.every_steps == 9);
  CHECK(checkpoints("ModelCheckpoint: {filepath: states}", "checkpoint: ~\n")
            .checkpoint.directory.empty());

  for (const std::string file : {"best.keras", "\"{epoch:02d}\"", "a/model.weights.h5"}) {
    CHECK_THROWS_WITH(checkpoints("ModelCheckpoint: {filepath: " + file + "}"),
                      Catch::Contains("name the directory"));
  }
  CHECK_THROWS_WITH(checkpoints("ModelCheckpoint: {filepath: a, save_freq: often}"),
                    Catch::Contains("save_freq") && Catch::Contains("often"));
  CHECK_THROWS_WITH(checkpoints("ModelCheckpoint: {filepath: a}, ModelCheckpoint: {filepath: b}"),
                    Catch::Contains("are saved by the callback at run.yaml:"));
  const RunConfig wrong =
      with("ModelCheckpoint: {filepath: states, monitor: val_los, save_best_only: true}");
  CHECK_THROWS_WITH(wrong.check_callbacks(*wrong.open_training().training, true),
                    Catch::Contains("val_los") && Catch::Contains("val_loss"));
}

TEST_CASE("fit saves where the callback ModelCheckpoint says") {
  const RunConfig config = run(branches);
  DeviceMesh mesh = config.mesh();
  Model model = config.make_model(mesh);
  FitOptions options = config.fit_options();
  const std::filesystem::path folder = fmt::format("saved_by_callback_{}", mesh.all().size());
  together(mesh.all(), [&] {
    if (mesh.all().rank() == 0) std::filesystem::remove_all(folder);
  });
  options.callbacks = {ModelCheckpoint({.filepath = folder})};
  (void)model.fit(config.open_training().training, options);
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) >= 2);
}

TEST_CASE("a kind of device that was added can be named, and is among those that are listed") {
  const test::AddedDevice abacus({.kind = "abacus"}, [](const DeviceOptions& options) {
    return make_device({"cpu", options.ranks_on_node, options.rank_on_node});
  });
  const RunConfig config = run(branches + "device: abacus\n");
  CHECK(config.options().device == "abacus");
  DeviceMesh mesh = config.mesh();
  CHECK_NOTHROW(trained(config, mesh));
  CHECK_THROWS_WITH(run(branches + "device: abakus\n"),
                    Catch::Contains("abacus") && Catch::Contains("cuda"));
}

TEST_CASE("an option that a model cannot be made with is said where it stands") {
  const RunConfig transport = run(branches + "device: cpu\ncollectives: nccl\n");
  DeviceMesh mesh = transport.mesh();
  const auto lines = std::count(branches.begin(), branches.end(), '\n');
  CHECK_THROWS_WITH(transport.make_model(mesh),
                    Catch::StartsWith(fmt::format("run.yaml:{}:14: collectives: ", lines + 2)) &&
                        Catch::Contains("\"nccl\" is for the memory of GPUs"));
  const RunConfig shared = run(branches + "device: cpu\ncollectives: shared\n");
  if (mesh.shape().rank_count() > 1) {
    CHECK(::setenv("MESHWORK_RANKS_A_NODE", "1", 1) == 0);
    CHECK_THROWS_WITH(shared.make_model(mesh),
                      Catch::StartsWith(fmt::format("run.yaml:{}:14: collectives: ", lines + 2)) &&
                          Catch::Contains("is for ranks of one node"));
    CHECK(::unsetenv("MESHWORK_RANKS_A_NODE") == 0);
  }
  // What stands in no configuration is said to be elsewhere.
  const RunConfig usual = run(branches + "collectives: hierarchical\n");
  CHECK(::setenv("MESHWORK_RANKS_A_NODE", "none", 1) == 0);
  CHECK_THROWS_WITH(usual.make_model(mesh),
                    Catch::StartsWith("MESHWORK_RANKS_A_NODE is \"none\" in the environment"));
  CHECK(::unsetenv("MESHWORK_RANKS_A_NODE") == 0);
}

TEST_CASE("the plan for a device that is apart counts what waits for it there") {
  const auto planned = [](const std::string& device) {
    const RunConfig config = run(branches + "device: " + device + "\n");
    const TrainingData data = config.open_training();
    Blueprint blueprint = config.blueprint(config.mesh().shape());
    return config.report(config.plan(blueprint, *data.training, 1600, Mode::train), *data.training,
                         1600, Mode::train, 0);
  };
  const PlanReport on_cpu = planned("cpu");
  const PlanReport on_gpu = planned("cuda");  // of which none need be here
  CHECK(on_cpu.ahead_bytes == 0);
  std::int64_t ahead = 0;
  for (const ReportedTensor& tensor : on_gpu.fed) ahead += FeedRing::bytes_ahead(tensor.bytes);
  CHECK(ahead > 0);
  CHECK(on_gpu.ahead_bytes == ahead);
  CHECK(on_gpu.peak_bytes() == on_cpu.peak_bytes() + ahead);
  CHECK_THAT(to_text(on_gpu), Catch::Contains("at the peak, on cuda") &&
                                  Catch::Contains("not included: kernel workspaces and tables"));
}

TEST_CASE("places are read, and what is wrong with them is told with its place") {
  const std::string two = "{mesh: {stage: 2, data: 2}, place: ";
  const auto spread = [&](const std::string& places) {
    Catalog catalog;
    return read_options<WrittenSpread>(parse_config(two + places + "}", "run.yaml"), catalog,
                                       "configuration");
  };
  const WrittenSpread read = spread("{d: {stage: 1}, e: {stage: [0, 1]}}");
  REQUIRE(read.place.entries.size() == 2);
  CHECK(read.place.entries[0].places[0].first == 1);
  CHECK_FALSE(read.place.entries[0].places[0].last);
  CHECK(read.place.entries[1].places[0].last == 1);
  CHECK_THROWS_WITH(spread("{d: {stage: -1}}"), Catch::Contains("run.yaml:1:48"));
  CHECK_THROWS_WITH(spread("{d: {stage: [1, 0]}}"), Catch::Contains("at least 1"));
  CHECK_THROWS_WITH(spread("{d: {stage: [0]}}"), Catch::Contains("the first and the last"));
  CHECK_THROWS_WITH(spread("{d: {stage: [0, 1, 2]}}"), Catch::Contains("found 3 of them"));
  CHECK_THROWS_WITH(spread("{d: 1}"), Catch::Contains("run.yaml:1:"));
  CHECK_THROWS_WITH(spread("automatic"),
                    Catch::Contains("run.yaml:1:36: place: expected auto, or") &&
                        Catch::Contains("found \"automatic\""));
  CHECK_THROWS_WITH(spread("Auto"), Catch::Contains("did you mean \"auto\"?"));
  CHECK_THROWS_WITH(spread("[d]"),
                    Catch::Contains("expected auto, or") && Catch::Contains("found a list"));
}

// Lines 1 to 4 are the mesh, places, the pipeline and fit.
std::string in_stages(const std::string& place, const std::string& pipeline,
                      const std::string& layers = "Dense: {name: d1, units: 5}",
                      const std::string& mesh = "{stage: -1, data: 1}") {
  return fmt::format(R"(mesh: {}
place: {}
pipeline: {}
fit: {{microbatches: 4}}
data:
  train: {{kind: synthetic, rows: 32, features: {{shape: [4]}}, targets: {{kind: classes, classes: 3}}}}
  batch_size: 8
model:
  input: [4]
  layers:
    - {}
    - Dense: {{name: d2, units: 5}}
    - Dense: {{name: d3, units: 3}}
loss: {{SparseCategoricalCrossentropy: {{from_logits: true}}}}
optimizer: {{SGD: {{learning_rate: 0.1}}}}
)",
                     mesh, place, pipeline, layers);
}

// What is wrong with it on so many ranks: "" for nothing. They need not be there.
std::string problem_on(std::int64_t ranks, const std::string& text) {
  try {
    const RunConfig config = run(text);
    Blueprint blueprint = config.blueprint(config.mesh_shape(ranks));
    (void)config.plan(blueprint, *config.open(DataPart::train), 8, Mode::train);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void require_problem(const std::string& text, const std::vector<std::string>& parts,
                     const std::vector<std::int64_t>& all_ranks = {1, 2, 3}) {
  for (const std::int64_t ranks : all_ranks) {
    INFO(ranks << " ranks: " << text);
    const std::string problem = problem_on(ranks, text);
    for (const std::string& part : parts) CHECK_THAT(problem, Catch::Contains(part));
    CHECK_THAT(problem, !Catch::Contains("\n"));
  }
}

const std::string two_places = "{d1: {stage: 0}, d2: {stage: 1}}";

TEST_CASE("places and pipelines that are right are so on any number of ranks") {
  const std::string right = in_stages(two_places, "{axis: stage}");
  const std::string automatic = in_stages("auto", "{axis: stage}");
  for (const std::int64_t ranks : {1, 2, 3}) {
    CHECK(problem_on(ranks, right) == "");
    CHECK(problem_on(ranks, automatic) == "");
  }
}

TEST_CASE("a mistake in places or in a pipeline is told on one rank as on several") {
  for (const std::string place : {"{}", "~"}) {
    require_problem(in_stages(place, "{axis: stage}"),
                    {"run.yaml:3:11: pipeline: the axis \"stage\" has no stages"});
  }
  require_problem(in_stages(two_places, "{axis: data}"),
                  {"run.yaml:3:11: pipeline: the axis \"data\" has no stages", "\"stage\""});
  require_problem(in_stages(two_places, "{axis: stag}"),
                  {"run.yaml:3:18: pipeline.axis", "did you mean \"stage\"?"});
  require_problem(in_stages("{d1: {stage: 1}, d2: {stage: 0}}", "{axis: stage}"),
                  {"run.yaml:2:8: place: d2/product+bias at stage 0", "values of a pipeline"});
  require_problem(in_stages("{d.: {stage: [0, 1]}}", "{axis: stage}"),
                  {"run.yaml:2:8: place: the axis \"stage\" has no stages"}, {1, 2});
  require_problem(in_stages(two_places, "{axis: stage, chunks: 2, schedule: zero_bubble}"),
                  {"run.yaml:3:33: pipeline.chunks: zero_bubble: expected one stage at each "
                   "coordinate, found chunks: 2"});
  require_problem(in_stages(two_places, "{axis: stage, chunks: 65537}"),
                  {"run.yaml:3:33: pipeline.chunks", "65536", "65537"});
  require_problem(in_stages(two_places, "{axis: [stage]}"),
                  {"run.yaml:3:18: pipeline.axis", "found a list"});
  require_problem(in_stages(two_places, "{axis: \"\"}"),
                  {"run.yaml:3:18: pipeline.axis", "expected an axis of the mesh"});
  require_problem(in_stages(two_places, "{}"), {"run.yaml:3:11", "key \"axis\" is missing"});
  // Its running means would be written at two places.
  require_problem(
      in_stages("{d1: {stage: 0}, d4: {stage: 1}}", "{axis: stage}",
                "Dense: {name: d1, units: 5}\n    - BatchNormalization: {name: n}\n"
                "    - Dense: {name: d4, units: 5}\n    - n"),
      {"run.yaml:2:8: place: n/batch normalization writes n/moving_mean", "place them together"});
}

TEST_CASE("more stages than there are layers are told with the place of the pipeline") {
  CHECK_THAT(problem_on(2, in_stages(two_places, "{axis: stage, chunks: 3}")),
             Catch::Contains("run.yaml:3:11: pipeline: 3 stages at each of the 2 coordinates"));
  CHECK_THAT(problem_on(3, in_stages("auto", "{axis: stage}", "Flatten: {name: d1}")),
             Catch::Contains("run.yaml:3:11: pipeline: 1 stage at each of the 3 coordinates") &&
                 Catch::Contains("2 layers that take time"));
}

TEST_CASE("a schedule from a file is for the ranks that it lists, and one rank needs none") {
  const std::string file = fmt::format("of_rank_{}.csv", Communicator::world().rank());
  std::ofstream(file) << "0F0, 0F1, 0B0, 0F2, 0B1, 0F3, 0B2, 0B3\n"
                         "1F0, 1B0, 1F1, 1B1, 1F2, 1B2, 1F3, 1B3\n";
  const std::string text =
      in_stages(two_places, "{axis: stage, schedule: {ListedActions: {file: " + file + "}}}");
  CHECK(problem_on(1, text) == "");
  CHECK(problem_on(2, text) == "");
  CHECK_THAT(problem_on(3, text),
             Catch::Contains("run.yaml:3:35: pipeline.schedule: " + file +
                             " lists the actions of 2 coordinates, the axis has 3 (mesh stage=3 x "
                             "data=1)"));
}

TEST_CASE("what a configuration says of the spread is read and told by one description") {
  Catalog catalog;
  const auto spread = read_options<WrittenSpread>(
      parse_config("{mesh: {data: 2, model: -1}, layout: {d/kernel: [~, model]}, batch_axis: ~}",
                   "run.yaml"),
      catalog, "configuration");
  CHECK(spread.mesh.axes == std::vector<MeshAxis>{{"data", 2}, {"model", -1}});
  CHECK(spread.layout.entries.size() == 1);
  CHECK(spread.distribution.batch_axis == "");
  CHECK(settings_of(spread) == Settings{{"mesh", "{data: 2, model: -1}"},
                                        {"distribution", "DataParallel"},
                                        {"layout", "{d/kernel}"},
                                        {"place", "{}"},
                                        {"batch_axis", "~"},
                                        {"unmatched_layouts", "error"}});
}

}  // namespace meshwork::run_config_test
