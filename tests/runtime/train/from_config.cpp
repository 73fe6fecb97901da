// Losses, metrics, optimizers, schedules and callbacks out of configurations.
#include "runtime/train/from_config.h"
#include "runtime/device/kernels/adam.h"
#include "runtime/device/kernels/rmsprop.h"
#include "runtime/device/kernels/sgd.h"

#include "runtime/config/load.h"
#include "runtime/pages.h"
#include "tests/runtime/train/scripted_training.h"
#include "tests/support/catch.h"

namespace meshwork::from_config_test {

using namespace meshwork::test;

namespace {

ConfigNode config(const std::string& text) {
  return parse_config(text, "test.yaml");
}

ConfigNode value(const std::string& text, const std::string& key) {
  return *config(text).find(key);
}

const Catalog& catalog() {
  static const Catalog all = [] {
    Catalog filled;
    add_runtime(filled);
    return filled;
  }();
  return all;
}

SharedLoss loss(const std::string& text) {
  return catalog().make<SharedLoss>(value("loss: " + text, "loss"));
}

std::vector<SharedMetric> metrics(const std::string& text) {
  return metrics_from_config(value("metrics: " + text, "metrics"), catalog());
}

Optimizer optimizer(const std::string& text) {
  return catalog().make<Optimizer>(value("optimizer: " + text, "optimizer"));
}

std::vector<SharedCallback> callbacks(const std::string& text) {
  std::vector<SharedCallback> all;
  from_config(value("callbacks: " + text, "callbacks"), all, catalog());
  return all;
}

}  // namespace

TEST_CASE("losses are read by class, by class with options, and by Keras's short names") {
  CHECK(loss("MeanSquaredError")->name() == "mean_squared_error");
  CHECK(loss("mse")->name() == "mean_squared_error");
  CHECK(loss("{MeanAbsoluteError: }")->name() == "mean_absolute_error");
  CHECK(loss("{BinaryCrossentropy: {from_logits: true, label_smoothing: 0.1}}")->name() ==
        "binary_crossentropy");
  CHECK(loss("sparse_categorical_crossentropy")->target_classes({-1, 10}, {-1}) == 10);
  CHECK(loss("{CategoricalCrossentropy: {label_smoothing: 0.1}}")->target_shape({-1, 10}) ==
        Shape{-1, 10});
}

TEST_CASE("wrong losses are errors with their place and the nearest right name") {
  CHECK_THROWS_WITH(
      loss("MeanSquareError"),
      Catch::StartsWith("test.yaml:1:7: loss: unknown loss \"MeanSquareError\"; did you mean "
                        "\"MeanSquaredError\"?"));
  CHECK_THROWS_WITH(loss("{SparseCategoricalCrossentropy: {from_logit: true}}"),
                    Catch::StartsWith("test.yaml:1:40: loss.SparseCategoricalCrossentropy: unknown "
                                      "key \"from_logit\"; did you mean \"from_logits\"?"));
  CHECK_THROWS_WITH(loss("{BinaryCrossentropy: {label_smoothing: 2}}"),
                    "test.yaml:1:46: loss.BinaryCrossentropy.label_smoothing: expected a number "
                    "between 0 and 1, found 2 (meshwork reference BinaryCrossentropy)");
  CHECK_THROWS_WITH(loss("[MeanSquaredError]"), Catch::Contains("expected a loss"));
}

TEST_CASE("thresholds are a number or a list of them, each with a result") {
  const auto results = [](const std::string& text) {
    return metrics(text).front()->results({-1, 3});
  };
  CHECK(results("[{Recall: {thresholds: 0.3}}]") == 1);
  CHECK(results("[{Recall: {thresholds: [0.3, 0.6]}}]") == 2);
  CHECK(results("[{F1Score: {average: none}}]") == 3);
  CHECK(results("[f1_score]") == 3);
  CHECK_THROWS_WITH(metrics("[{Recall: {thresholds: [0.3, 2]}}]"),
                    Catch::Contains("expected a number between 0 and 1, found 2"));
  CHECK_THROWS_WITH(metrics("[{Precision: {thresholds: []}}]"),
                    Catch::Contains("or a list of them, found none"));
}

TEST_CASE("metrics are shown under the name the user wrote, or their class's") {
  const std::vector<SharedMetric> all = metrics(
      "[accuracy, SparseCategoricalAccuracy, {SparseTopKCategoricalAccuracy: {k: 3}}, mse, "
      "MeanAbsoluteError, {acc: {name: right}}, {BinaryAccuracy: {threshold: 0.2, name: b}}]");
  std::vector<std::string> names;
  for (const SharedMetric& metric : all) names.push_back(metric->name());
  CHECK(names == std::vector<std::string>{"accuracy", "sparse_categorical_accuracy",
                                          "sparse_top_k_categorical_accuracy", "mse",
                                          "mean_absolute_error", "right", "b"});
  CHECK(all[0]->better() == Better::higher);
  CHECK(all[3]->better() == Better::lower);
  CHECK(all[0]->operation({-1, 10}, {-1})->kind() == "sparse_categorical_accuracy");
  CHECK(all[0]->target_classes({-1, 10}, {-1}) == 10);
  CHECK(all[3]->value_count({6, 10}) == 6);
  CHECK(metrics("[]").empty());
  CHECK(metrics("").empty());
}

TEST_CASE("wrong metrics are errors with their place") {
  CHECK_THROWS_WITH(metrics("[accurracy]"),
                    Catch::StartsWith("test.yaml:1:11: metrics[0]: unknown metric \"accurracy\"; "
                                      "did you mean \"accuracy\"?"));
  CHECK_THROWS_WITH(metrics("[accuracy, accuracy]"),
                    "test.yaml:1:10: metrics: two values in the logs have the name \"accuracy\"; "
                    "give the metric another name");
  CHECK_THROWS_WITH(metrics("[{TopKCategoricalAccuracy: {k: 0}}]"),
                    Catch::Contains("expected an integer of at least 1, found 0"));
  CHECK_THROWS_WITH(metrics("accuracy"), Catch::Contains("expected a list"));
}

TEST_CASE("an expression of an optimizer that is malformed is an error with its place") {
  CHECK_THROWS_WITH(optimizer("{AdamW: {exclude_from_weight_decay: [bias, norm(]}}"),
                    "test.yaml:1:20: optimizer.AdamW: exclude_from_weight_decay: expression "
                    "\"norm(\" is not a regular expression: parentheses that do not match, at "
                    "character 5 (\"(\")");
}

TEST_CASE("optimizers are read with Keras's options and defaults") {
  CHECK(optimizer("Adam").class_name() == "Adam");
  CHECK(optimizer("adam").learning_rate(0) == 0.001);
  CHECK(optimizer("{SGD: {learning_rate: 0.5, momentum: 0.9, nesterov: true}}").learning_rate(7) ==
        0.5);
  const auto sgd = *optimizer("{SGD: {momentum: 0.9, nesterov: true, weight_decay: 0.25}}")
                        .update_rule()
                        .kernel({.count = 3})
                        .get_if<SgdSpec>();
  CHECK(sgd.momentum == 0.9f);
  CHECK(sgd.nesterov);
  CHECK(sgd.decay == 0.25f);
  const Optimizer adamw = optimizer("{AdamW: {beta_1: 0.8, amsgrad: true, global_clipnorm: 2}}");
  const auto adam = *adamw.update_rule().kernel({.count = 3}).get_if<AdamSpec>();
  CHECK(adam.beta_1 == 0.8);
  CHECK(adam.beta_2 == 0.999);
  CHECK(adam.decay == 0.004f);
  CHECK(adamw.slot_names().size() == 3);
  CHECK(adamw.update_rule().clipping == Clipping::global_norm);
  CHECK(optimizer("{AdamW: {weight_decay: ~}}")
            .update_rule()
            .kernel({.count = 3})
            .get_if<AdamSpec>()
            ->decay == 0);
  const auto rmsprop = *optimizer("{RMSprop: {rho: 0.5, centered: true}}")
                            .update_rule()
                            .kernel({.count = 3})
                            .get_if<RmspropSpec>();
  CHECK(rmsprop.rho == 0.5);
  CHECK(rmsprop.centered);
}

TEST_CASE("a learning rate is a number or a schedule") {
  const auto rate = [](const std::string& text, std::int64_t iteration) {
    return optimizer("{SGD: {learning_rate: " + text + "}}").learning_rate(iteration);
  };
  CHECK(rate("1e-3", 5) == 1e-3);
  CHECK(rate("{CosineDecay: {initial_learning_rate: 0, decay_steps: 100, warmup_target: 0.1, "
             "warmup_steps: 10}}",
             5) == Approx(0.05));
  CHECK(rate("{PiecewiseConstantDecay: {boundaries: [10, 20], values: [1, 0.5, 0.25]}}", 11) ==
        0.5);
  CHECK(rate("{ExponentialDecay: {initial_learning_rate: 1, decay_steps: 10, decay_rate: 0.5, "
             "staircase: true}}",
             19) == 0.5);
  CHECK_THROWS_WITH(rate("fast", 0),
                    Catch::StartsWith("test.yaml:1:34: optimizer.SGD.learning_rate: expected a") &&
                        Catch::EndsWith("found \"fast\""));
  CHECK_THROWS_WITH(rate("-1", 0), Catch::EndsWith("found -1"));
  CHECK_THROWS_WITH(rate("CosineDecay", 0),
                    Catch::Contains("initial_learning_rate") && Catch::Contains("is missing"));
  CHECK_THROWS_WITH(rate("{CosinDecay: {}}", 0), Catch::Contains("did you mean \"CosineDecay\"?"));
  CHECK_THROWS_WITH(
      rate("{PiecewiseConstantDecay: {boundaries: [1], values: [1]}}", 0),
      Catch::StartsWith("test.yaml:1:") && Catch::Contains("1 boundaries need 2 values, found 1"));
}

TEST_CASE("wrong optimizers are errors with their place") {
  CHECK_THROWS_WITH(optimizer("Adm"),
                    Catch::StartsWith("test.yaml:1:12: optimizer: unknown "
                                      "optimizer \"Adm\"; did you mean \"Adam\"?"));
  CHECK_THROWS_WITH(optimizer("{Adam: {lr: 0.1}}"),
                    Catch::StartsWith("test.yaml:1:20: optimizer.Adam: unknown key \"lr\""));
  CHECK_THROWS_WITH(optimizer("{Adam: {clipnorm: 1, clipvalue: 1}}"),
                    Catch::StartsWith("test.yaml:1:") &&
                        Catch::Contains("clipnorm and clipvalue are both given"));
  CHECK_THROWS_WITH(optimizer("{Adam: {beta_1: 1}}"),
                    Catch::Contains("expected a number of at least 0 and below 1, found 1"));
}

TEST_CASE("callbacks are read, and do what they were told") {
  const std::vector<SharedCallback> all = callbacks(
      "[{CSVLogger: {filename: log.csv, separator: ';', append: true}},"
      " {EarlyStopping: {monitor: loss, patience: 1, mode: max, restore_best_weights: true}},"
      " {ReduceLROnPlateau: {monitor: loss, factor: 0.5, patience: 2, min_lr: 0.001}},"
      " {LearningRateScheduler: {schedule: {PiecewiseConstantDecay: {boundaries: [0], values: [1, "
      "0.5]}}}}, TerminateOnNaN]");
  std::vector<std::string> names;
  for (const SharedCallback& callback : all) names.push_back(callback->class_name());
  CHECK(names == std::vector<std::string>{"CSVLogger", "EarlyStopping", "ReduceLROnPlateau",
                                          "LearningRateScheduler", "TerminateOnNaN"});
  ScriptedTraining training({"loss"}, {all[1], all[3]});
  training.run(epochs_of("loss", {1, 2, 1, 3}));
  CHECK(training.rates == std::vector<double>{1, 0.5, 0.5});
  CHECK(training.weights == 1);
  CHECK(callbacks("").empty());
}

TEST_CASE("names that Keras alone has are errors that say what to write instead") {
  CHECK_THROWS_WITH(loss("CTC"),
                    Catch::Contains("there is no loss \"CTC\": Meshwork does not train on labels"));
  CHECK_THROWS_WITH(metrics("[Mean]"), Catch::Contains("there is no metric \"Mean\": they add up"));
  CHECK_THROWS_WITH(optimizer("LossScaleOptimizer"), Catch::Contains("gradients are float32"));
  CHECK_THROWS_WITH(callbacks("[BackupAndRestore]"),
                    Catch::Contains("checkpoint: {directory: backup, resume: auto}"));
  CHECK_THROWS_WITH(callbacks("[{ModelCheckpoint: {filepath: c, mode: max}}]"),
                    Catch::Contains("there is no option \"mode\": each log knows"));
  CHECK_THROWS_WITH(loss("{MeanSquaredError: {reduction: sum}}"),
                    Catch::Contains("there is no option \"reduction\": a loss is the mean"));
  CHECK_THROWS_WITH(metrics("[{AUC: {dtype: float64}}]"),
                    Catch::Contains("numbers are float32, and sums float64"));
  // What is there is not looked up, nor is another kind's.
  CHECK(loss("{Dice: {axis: [1]}}")->name() == "dice");
  CHECK_THROWS_WITH(metrics("[Orthogonal]"), Catch::Contains("unknown metric \"Orthogonal\""));
}

TEST_CASE("wrong callbacks are errors with their place") {
  CHECK_THROWS_WITH(callbacks("[EarlyStoping]"),
                    Catch::StartsWith("test.yaml:1:13: callbacks[0]: unknown callback "
                                      "\"EarlyStoping\"; did you mean \"EarlyStopping\"?"));
  CHECK_THROWS_WITH(callbacks("[CSVLogger]"), Catch::Contains("\"filename\" is missing"));
  CHECK_THROWS_WITH(callbacks("[{CSVLogger: {filename: a, separator: ab}}]"),
                    Catch::Contains("expected one character, found \"ab\""));
  CHECK_THROWS_WITH(callbacks("[{EarlyStopping: {mode: least}}]"), Catch::Contains("mode"));
  CHECK_THROWS_WITH(callbacks("[{ReduceLROnPlateau: {factor: 1}}]"),
                    Catch::Contains("expected a number of at least 0 and below 1, found 1"));
  CHECK_THROWS_WITH(callbacks("[{LearningRateScheduler: {}}]"),
                    Catch::Contains("\"schedule\" is missing"));
}

}  // namespace meshwork::from_config_test
