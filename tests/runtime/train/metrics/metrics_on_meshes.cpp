// Metrics of several sums in fits and evaluations, on every mesh: exactly the counts of one rank,
// and values to rounding, over batches of unequal length, with rows and with the last dimension
// split.
#include <cstdint>
#include <string>
#include <vector>

#include "layers/activation.h"
#include "layers/dense.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/losses/binary_crossentropy.h"
#include "runtime/train/metrics/auc.h"
#include "runtime/train/metrics/binary_accuracy.h"
#include "runtime/train/metrics/binary_iou.h"
#include "runtime/train/metrics/confusion_metrics.h"
#include "runtime/train/metrics/correlation.h"
#include "runtime/train/metrics/f_score.h"
#include "runtime/train/metrics/iou.h"
#include "runtime/train/metrics/largest_at.h"
#include "runtime/train/metrics/regression_metrics.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::metrics_on_meshes_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t rows = 23, features = 4, outputs = 3;

std::shared_ptr<const Source> samples() {
  std::vector<float> t;
  for (std::int64_t i = 0; i < rows * outputs; ++i) t.push_back(static_cast<float>(i * 7 % 5 < 2));
  return std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", random_floats(rows * features, 1), {rows, features}),
                         Array("t", t, {rows, outputs}, FieldRole::target)});
}

struct Outcome {
  History history;
  Logs evaluated;
};

Outcome run(DeviceMesh& mesh, const LayoutEntries& layouts) {
  const auto input = Input({features});
  Model model(input,
              Dense({.name = "d", .units = outputs, .activation = Activation::sigmoid})(input),
              spread_over(mesh, layouts), {.seed = 5, .check_plan = true});
  model.compile({.loss = BinaryCrossentropy(),
                 .optimizer = SGD({.learning_rate = 0.1}),
                 .metrics = {BinaryAccuracy(), PrecisionMetric(), Recall(), AUC(), FalsePositives(),
                             R2Score(), RootMeanSquaredError(),
                             SensitivityAtSpecificity({.specificity = 0.5}), BinaryIoU(), F1Score(),
                             FBetaScore({.average = ClassAverage::micro, .threshold = 0.5}),
                             OneHotMeanIoU({.num_classes = outputs}), PearsonCorrelation(),
                             TruePositives({.thresholds = {0.7, 0.3}}),
                             PrecisionMetric({.top_k = 2, .name = "of_two"}),
                             Recall({.class_id = 1, .name = "of_one"})},
                 .gradient_norm = true});
  Outcome outcome;
  outcome.history = model.fit(samples(), {.epochs = 2,
                                          .batch_size = 8,
                                          .validation = samples(),
                                          .shuffle = false,
                                          .verbose = Verbosity::silent});
  outcome.evaluated = model.evaluate(samples(), {.batch_size = 5});
  return outcome;
}

}  // namespace

TEST_CASE("metrics of several sums are on every mesh as on one rank") {
  const int ranks = Communicator::world().size();
  DeviceMesh one = alone();
  const Outcome expected = run(one, {});
  const LayoutEntries split{
      {"d/kernel", {unsharded, "model"}}, {"d/bias", {"model"}}, {"d/output", {"data", "model"}}};
  std::vector<std::pair<std::vector<MeshAxis>, LayoutEntries>> spreads{
      {{{"data", ranks}, {"model", 1}}, {}}, {{{"data", 1}, {"model", ranks}}, split}};
  if (ranks % 2 == 0) spreads.push_back({{{"data", ranks / 2}, {"model", 2}}, split});
  // Batches of another length have the same sums.
  CHECK(expected.evaluated.at("precision") == expected.history.at("val_precision").back());
  CHECK(expected.evaluated.at("auc") == Approx(expected.history.at("val_auc").back()));
  CHECK(expected.evaluated.at("auc") > 0);
  CHECK(expected.evaluated.at("f1_score_2") == expected.history.at("val_f1_score_2").back());
  CHECK(expected.evaluated.at("true_positives_1") > expected.evaluated.at("true_positives_0"));
  for (const auto& [axes, layouts] : spreads) {
    DeviceMesh mesh(axes);
    INFO(to_string(layouts) << " on " << to_string(mesh.shape()));
    const Outcome found = run(mesh, layouts);
    CHECK(difference(found.evaluated, expected.evaluated, 1e-5) == "");
    REQUIRE(found.history.history.size() == expected.history.history.size());
    for (const auto& [name, values] : expected.history.history) {
      for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
        INFO(name << " of epoch " << epoch);
        CHECK(found.history.at(name)[epoch] == Approx(values[epoch]).epsilon(1e-5));
      }
    }
  }
}

}  // namespace meshwork::metrics_on_meshes_test
