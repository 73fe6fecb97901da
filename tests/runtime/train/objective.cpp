// What an objective warns of: predictions that a loss takes for what they are not.
#include "runtime/train/objective.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "layers/activation.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/pages.h"
#include "layers/reshape.h"
#include "layers/softmax.h"
#include "runtime/config/load.h"
#include "runtime/pages.h"
#include "runtime/train/losses/binary_crossentropy.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/accuracy.h"
#include "runtime/train/metrics/auc.h"
#include "runtime/train/metrics/binary_accuracy.h"
#include "runtime/train/metrics/confusion_metrics.h"
#include "runtime/train/metrics/f_score.h"
#include "runtime/train/optimizers/sgd.h"
#include "runtime/train/run_config.h"
#include "tests/support/one_rank.h"

namespace meshwork::objective_test {
namespace {

using namespace meshwork::test;

// Of a model that ends with `layers`.
std::string mismatch(const std::vector<SharedLayer>& layers, const SharedLoss& loss,
                     const std::vector<SharedMetric>& metrics = {}) {
  const SymbolicTensor x = Input({4});
  SymbolicTensor y = x;
  for (const SharedLayer& layer : layers) y = layer(y);
  const Graph graph = make_graph({x}, {y});
  return mismatch_of(graph, graph.outputs.front(), {.loss = loss, .metrics = metrics});
}

SharedLayer dense(Activation activation = Activation::linear, const std::string& name = "d") {
  return Dense({.name = name, .units = 4, .activation = activation});
}

}  // namespace

TEST_CASE("a softmax or sigmoid before a loss of logits is told, whichever layer has it") {
  const SharedLoss losses[] = {SparseCategoricalCrossentropy({.from_logits = true}),
                               CategoricalCrossentropy({.from_logits = true}),
                               BinaryCrossentropy({.from_logits = true})};
  for (const SharedLoss& loss : losses) {
    CHECK_THAT(mismatch({dense(Activation::softmax)}, loss),
               Catch::Contains("\"d/output\" comes out of a softmax") &&
                   Catch::Contains("from_logits: false"));
    CHECK_THAT(mismatch({dense(Activation::sigmoid)}, loss), Catch::Contains("of a sigmoid"));
    CHECK_THAT(mismatch({dense(), Softmax()}, loss), Catch::Contains("of a softmax"));
    CHECK_THAT(mismatch({dense(), ActivationLayer({.activation = Activation::sigmoid})}, loss),
               Catch::Contains("of a sigmoid"));
    CHECK_THAT(mismatch({dense(Activation::softmax), Reshape({.target_shape = {2, 2}})}, loss),
               Catch::Contains("of a softmax"));
    CHECK(mismatch({dense()}, loss).empty());
    CHECK(mismatch({dense(Activation::softmax, "c"), dense()}, loss).empty());
  }
}

TEST_CASE("logits before a loss of probabilities are told") {
  const SharedLoss losses[] = {SparseCategoricalCrossentropy(), CategoricalCrossentropy(),
                               BinaryCrossentropy()};
  for (const SharedLoss& loss : losses) {
    CHECK_THAT(mismatch({dense()}, loss), Catch::Contains("no softmax or sigmoid makes "
                                                          "\"d/output\"; set from_logits: true"));
    CHECK_FALSE(mismatch({dense(Activation::relu)}, loss).empty());
    CHECK_FALSE(mismatch({dense(Activation::softmax, "c"), dense()}, loss).empty());
    CHECK(mismatch({dense(Activation::softmax)}, loss).empty());
    CHECK(mismatch({dense(), Softmax()}, loss).empty());
    CHECK(mismatch({dense(Activation::sigmoid)}, loss).empty());
  }
}

TEST_CASE("a metric of probabilities beside a loss of logits is told") {
  const SharedLoss logits = BinaryCrossentropy({.from_logits = true});
  CHECK_THAT(mismatch({dense()}, logits, {AUC()}),
             Catch::Contains("the loss takes \"d/output\" for logits") &&
                 Catch::Contains("the metric auc takes it for probabilities"));
  for (const SharedMetric& metric :
       {PrecisionMetric(), BinaryAccuracy(), F1Score({.threshold = 0.5})}) {
    CHECK_THAT(mismatch({dense()}, logits, {metric}),
               Catch::Contains("the metric " + metric->name()));
  }
  CHECK(mismatch({dense()}, logits, {BinaryAccuracy({.threshold = 0}), F1Score()}).empty());
  // Of one value it is BinaryAccuracy, of several the largest counts.
  CHECK_THAT(mismatch({Dense({.name = "d", .units = 1})}, logits, {Accuracy()}),
             Catch::Contains("the metric accuracy takes it for probabilities"));
  CHECK(mismatch({dense()}, CategoricalCrossentropy({.from_logits = true}), {Accuracy()}).empty());
  CHECK(
      mismatch({dense()}, logits, {AUC({.from_logits = true}), PrecisionMetric({.thresholds = 0})})
          .empty());
  CHECK(mismatch({dense(Activation::sigmoid)}, BinaryCrossentropy(), {AUC()}).empty());
  CHECK(mismatch({dense()}, MeanSquaredError(), {AUC()}).empty());
}

TEST_CASE("other losses take any predictions") {
  CHECK(mismatch({dense()}, MeanSquaredError()).empty());
  CHECK(mismatch({dense(Activation::softmax)}, MeanSquaredError()).empty());
}

TEST_CASE("a configuration is told at the option, or at the loss that leaves it out") {
  Catalog catalog;
  add_runtime(catalog);
  add_layers(catalog);
  const auto warnings = [&](const std::string& activation, const std::string& loss) {
    const RunConfig config(
        parse_config("model: {input: [4], layers: [{Dense: {units: 3, activation: " + activation +
                         "}}]}\nloss: " + loss + "\n",
                     "a.yaml"),
        catalog);
    return config.blueprint(config.mesh_shape(1)).warnings;
  };
  const auto one = warnings("softmax", "{SparseCategoricalCrossentropy: {from_logits: true}}");
  REQUIRE(one.size() == 1);
  CHECK_THAT(one[0], Catch::StartsWith(
                         "a.yaml:2:53: loss.SparseCategoricalCrossentropy.from_logits: the loss"));
  const auto other = warnings("~", "sparse_categorical_crossentropy");
  REQUIRE(other.size() == 1);
  CHECK_THAT(other[0], Catch::StartsWith("a.yaml:2:7: loss: the loss"));
  CHECK(warnings("softmax", "sparse_categorical_crossentropy").empty());
}

// What `fit` prints on standard output.
static std::string said_by_fit(FitOptions options, bool validated,
                               Verbosity verbosity = Verbosity::lines) {
  std::vector<Array> arrays{Array("x", std::vector<float>(16, 1.0f), {16, 1}),
                            Array("t", std::vector<float>(16, 1.0f), {16, 1}, FieldRole::target)};
  const auto data = std::make_shared<ArraySource>(std::move(arrays));
  DeviceMesh mesh({{"data", -1}});
  const SymbolicTensor x = Input({1});
  Model model(x, Dense({.units = 1})(x), DataParallel(mesh));
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD()});
  options.batch_size = 8;
  options.verbose = verbosity;
  if (validated) options.validation = data;
  std::ostringstream out;
  std::streambuf* const before = std::cout.rdbuf(out.rdbuf());
  try {
    (void)model.fit(data, std::move(options));
  } catch (...) {
    std::cout.rdbuf(before);
    throw;
  }
  std::cout.rdbuf(before);
  return out.str();
}

TEST_CASE("validation that is asked for and not reached is told before training") {
  const std::string said = said_by_fit({.epochs = 3, .validation_freq = 4}, true);
  CHECK_THAT(said, Catch::StartsWith("WARNING: validation_freq is 4, which epochs 1 to 3 do not "
                                     "reach: the validation data are not evaluated\n"));
  CHECK(said_by_fit({.epochs = 3, .validation_freq = 3}, true).find("WARNING") ==
        std::string::npos);
  CHECK(said_by_fit({.epochs = 1}, true).find("WARNING") == std::string::npos);
  CHECK(said_by_fit({.epochs = 1}, false).find("WARNING") == std::string::npos);
}

TEST_CASE("an interval of validation without data for it is told") {
  CHECK_THAT(said_by_fit({.epochs = 2, .validation_freq = 2}, false),
             Catch::Contains("validation_freq is 2, but there are no validation data"));
}

namespace {

class StopAfterOneEpoch final : public Callback {
 public:
  std::string class_name() const override { return "StopAfterOneEpoch"; }
  bool decides_alike() const override { return true; }
  void on_train_batch_end(Training& training) override { training.stop(); }
};

}  // namespace

namespace {

class Warns final : public Callback {
 public:
  std::string class_name() const override { return "Warns"; }
  bool decides_alike() const override { return true; }
  void on_epoch_end(Training& training) override {
    training.say("WARNING: of a callback");
    training.say("no warning");
  }
};

}  // namespace

TEST_CASE("a silent run warns where errors are told") {
  const FitOptions options{.epochs = 1, .callbacks = {std::make_shared<Warns>()}};
  CHECK_THAT(said_by_fit(options, false), Catch::Contains("WARNING: of a callback\n"));
  const char* const file = "said.txt";
  std::fflush(stderr);
  const int before = ::dup(STDERR_FILENO);
  const int to_file = ::open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(to_file, STDERR_FILENO);
  const std::string said = said_by_fit(options, false, Verbosity::silent);
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(to_file);
  CHECK(said == "no warning\n");
  std::ostringstream warned;
  warned << std::ifstream(file).rdbuf();
  CHECK(warned.str() == "WARNING: of a callback\n");
}

TEST_CASE("a run that a callback ends before its validation says so at its end") {
  CHECK_THAT(
      said_by_fit(
          {.epochs = 4, .validation_freq = 2, .callbacks = {std::make_shared<StopAfterOneEpoch>()}},
          true),
      Catch::Contains("the run ended before an epoch with validation (validation_freq: 2)"));
}

}  // namespace meshwork::objective_test
