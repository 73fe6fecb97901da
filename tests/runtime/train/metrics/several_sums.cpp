// Metrics that follow from several sums: Keras's own numbers over two batches, definitions by
// sorting and counting, and every split of every dimension against the whole.
#include <cmath>
#include <limits>

#include "runtime/train/metrics/auc.h"
#include "runtime/train/metrics/binary_iou.h"
#include "runtime/train/metrics/confusion_metrics.h"
#include "runtime/train/metrics/largest_at.h"
#include "runtime/train/metrics/regression_metrics.h"
#include "runtime/train/metrics/threshold_metric.h"
#include "tests/runtime/train/comparison_cases.h"

namespace meshwork::several_sums_test {

using namespace meshwork::test;

namespace {

// The metric of several batches.
double value_of(const Metric& metric, const std::vector<std::pair<Tensor, Tensor>>& batches) {
  Values sums;
  double rows = 0;
  for (const auto& [p, t] : batches) {
    const Values of = run_whole(*operation_of(metric, p, t), forward_case(p, t)).output.values;
    sums.resize(of.size());
    for (std::size_t i = 0; i < of.size(); ++i) sums[i] += of[i];
    rows += metric.value_count(p.shape);
  }
  return metric.value(sums, rows);
}
double value_of(const Metric& metric, const Tensor& p, const Tensor& t) {
  return value_of(metric, {{p, t}});
}

const Tensor first_p({4, 2}, {0.1, 0.4, 0.35, 0.8, 0.9, 0.65, 0.5, 0.2});
const Tensor last_p({2, 2}, {0.75, 0.05, 0.3, 1});
const Tensor first_y({4, 2}, {0, 1, 0, 1, 1, 0, 1, 0}), last_y({2, 2}, {1, 0, 0, 1});
const Tensor first_t({4, 2}, {0.2, 0.5, 0.25, 1.8, -0.9, 0.5, 0.5, 0.1});
const Tensor last_t({2, 2}, {0.7, 0.4, 0.1, 0.9});

std::vector<SharedMetric> all_metrics() {
  return {TruePositives(),
          FalseNegatives(),
          PrecisionMetric(),
          Recall({.thresholds = 0.3}),
          AUC({.num_thresholds = 7}),
          SensitivityAtSpecificity({.specificity = 0.5, .num_thresholds = 5}),
          BinaryIoU(),
          RootMeanSquaredError(),
          R2Score()};
}

// 0 and 1.
Tensor sides(const Shape& shape, unsigned seed) {
  return random_classes(shape, 2, seed);
}

}  // namespace

TEST_CASE("metrics of several sums are those of Keras 3.15 over two batches") {
  const auto check = [](const SharedMetric& metric, bool values, double expected) {
    INFO(metric->name());
    CHECK(value_of(*metric,
                   {{first_p, values ? first_t : first_y}, {last_p, values ? last_t : last_y}}) ==
          Approx(expected).epsilon(2e-6));
  };
  check(TruePositives(), false, 4);
  check(TrueNegatives(), false, 5);
  check(FalsePositives(), false, 1);
  check(FalseNegatives(), false, 2);
  check(PrecisionMetric(), false, 0.8);
  check(PrecisionMetric({.thresholds = 0.7}), false, 1);
  check(Recall(), false, 0.66666669);
  check(AUC(), false, 0.94444442);
  check(AUC({.curve = AucCurve::pr}), false, 0.94392133);
  check(AUC({.num_thresholds = 5, .summation_method = AucSummation::minoring}), false, 0.80555552);
  check(
      AUC({.num_thresholds = 5, .curve = AucCurve::pr, .summation_method = AucSummation::majoring}),
      false, 0.93333334);
  check(AUC({.num_thresholds = 5, .curve = AucCurve::pr}), false, 0.88732654);
  check(SensitivityAtSpecificity({.specificity = 0.6}), false, 1);
  check(SpecificityAtSensitivity({.sensitivity = 0.6}), false, 1);
  check(PrecisionAtRecall({.recall = 0.5}), false, 1);
  check(RecallAtPrecision({.precision = 0.7}), false, 1);
  check(BinaryIoU(), false, 0.71428573);
  check(BinaryIoU({.target_class_ids = {1}, .threshold = 0.4}), false, 0.85714275);
  check(RootMeanSquaredError(), true, 0.61083955);
  check(LogCoshError(), true, 0.14040948);
  check(CosineSimilarityMetric(), true, 0.73256665);
  check(R2Score(), true, -0.40084776);
  check(R2Score({.class_aggregation = OutputAverage::by_variance}), true, -0.34779871);
}

TEST_CASE("the best of one share is that of the thresholds that keep the other") {
  // Thresholds 0, 0.5, 1: nothing but 0.5 has a specificity of 1/2 and a sensitivity of 1/2.
  const Tensor p({4, 1}, {0.25, 0.75, 0.25, 0.75}), t({4, 1}, {0, 0, 1, 1});
  CHECK(value_of(*SensitivityAtSpecificity({.specificity = 0.5, .num_thresholds = 3}), p, t) ==
        0.5);
  CHECK(value_of(*SensitivityAtSpecificity({.specificity = 0.75, .num_thresholds = 3}), p, t) == 0);
  CHECK(value_of(*SpecificityAtSensitivity({.sensitivity = 0.5, .num_thresholds = 3}), p, t) ==
        0.5);
  CHECK(value_of(*SpecificityAtSensitivity({.sensitivity = 0.75, .num_thresholds = 3}), p, t) == 0);
  CHECK(value_of(*PrecisionAtRecall({.recall = 0.5, .num_thresholds = 3}), p, t) == 0.5);
  CHECK(value_of(*RecallAtPrecision({.precision = 0.5, .num_thresholds = 3}), p, t) == 1);
  CHECK(value_of(*RecallAtPrecision({.precision = 0.75, .num_thresholds = 3}), p, t) == 0);
}

TEST_CASE("the area under the curve of many thresholds is the share of pairs in the right order") {
  const Shape shape{40, 1};
  Tensor p = random_tensor(shape, 1, 0, 1);
  for (double& value : p.values) value = std::round(value * 50) / 50 + 0.001;
  const Tensor t = sides(shape, 2);
  double right = 0, pairs = 0;
  for (std::size_t i = 0; i < p.values.size(); ++i) {
    for (std::size_t j = 0; j < p.values.size(); ++j) {
      if (t.values[i] == 0 || t.values[j] != 0) continue;
      pairs += 1;
      right += p.values[i] > p.values[j] ? 1 : (p.values[i] == p.values[j] ? 0.5 : 0);
    }
  }
  CHECK(value_of(*AUC(), p, t) == Approx(right / pairs).epsilon(1e-12));
  Tensor logits = p;
  for (double& value : logits.values) value = static_cast<float>(std::log(value / (1 - value)));
  CHECK(value_of(*AUC({.from_logits = true}), logits, t) == Approx(right / pairs).epsilon(1e-12));
}

TEST_CASE("metrics of several sums split over every dimension") {
  const Shape shape = GENERATE(Shape{5, 7}, Shape{3, 2, 5}, Shape{7, 1}, Shape{9});
  const Tensor p = random_tensor(shape, 1, 0, 1), t = sides(shape, 2);
  for (const SharedMetric& metric : all_metrics()) {
    INFO(metric->name() << " of " << to_string(shape));
    // Counts are whole numbers; sums of squares are doubles of 35 terms in another order.
    check_strategies(*operation_of(*metric, p, t), forward_case(p, t), 1e-12);
  }
  const Tensor not_numbers(shape, Values(p.values.size(), std::nan("")));
  CHECK(value_of(*TruePositives(), not_numbers, t) == 0);
  CHECK(value_of(*TrueNegatives(), not_numbers, t) + value_of(*FalseNegatives(), not_numbers, t) ==
        static_cast<double>(p.values.size()));
}

TEST_CASE("shares of nothing are 0, and infinite predictions are above all thresholds") {
  const Tensor p({2, 1}, {0.1, 0.2}), none({2, 1}, {0, 0}), all({2, 1}, {1, 1});
  for (const SharedMetric& metric : std::vector<SharedMetric>{
           PrecisionMetric(), Recall(), AUC({.curve = AucCurve::pr}), AUC(), TruePositives()}) {
    INFO(metric->name());
    CHECK(value_of(*metric, p, none) == 0);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(value_of(*TruePositives(), Tensor({2, 1}, {infinity, -infinity}), all) == 1);
  CHECK(value_of(*FalseNegatives(), Tensor({2, 1}, {infinity, -infinity}), all) == 1);
}

TEST_CASE("metrics of several sums say which is better, and refuse options out of range") {
  CHECK(FalsePositives()->better() == Better::lower);
  CHECK(AUC()->better() == Better::higher);
  CHECK(RootMeanSquaredError()->better() == Better::lower);
  CHECK(CosineSimilarityMetric()->better() == Better::higher);
  CHECK(LogCoshError()->name() == "logcosh");
  CHECK_THROWS_WITH(AUC({.num_thresholds = 1}), Catch::Contains("AUC: num_thresholds"));
  CHECK_THROWS_WITH(SensitivityAtSpecificity({}), Catch::Contains("specificity"));
  CHECK_THROWS_WITH(PrecisionMetric({.thresholds = 2}), Catch::Contains("Precision: thresholds"));
  CHECK_THROWS_WITH(BinaryIoU({.target_class_ids = {2}}), Catch::Contains("target_class_ids"));
}

}  // namespace meshwork::several_sums_test
