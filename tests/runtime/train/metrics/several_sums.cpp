// Metrics that follow from several sums: Keras's own numbers over two batches, definitions by
// sorting and counting, and every split of every dimension against the whole.
#include <cmath>
#include <limits>

#include "runtime/train/losses/comparison.h"
#include "runtime/train/metrics/auc.h"
#include "runtime/train/metrics/binary_iou.h"
#include "runtime/train/metrics/confusion_metrics.h"
#include "runtime/train/metrics/correlation.h"
#include "runtime/train/metrics/f_score.h"
#include "runtime/train/metrics/iou.h"
#include "runtime/train/metrics/largest_at.h"
#include "runtime/train/metrics/regression_metrics.h"
#include "runtime/train/metrics/threshold_metric.h"
#include "tests/runtime/train/comparison_cases.h"

namespace meshwork::several_sums_test {

using namespace meshwork::test;

namespace {

// The metric of several batches.
double value_of(const Metric& metric, const std::vector<std::pair<Tensor, Tensor>>& batches,
                std::int64_t result = 0) {
  Values sums;
  double rows = 0;
  for (const auto& [p, t] : batches) {
    const Values of = run_whole(*operation_of(metric, p, t), forward_case(p, t)).output.values;
    sums.resize(of.size());
    for (std::size_t i = 0; i < of.size(); ++i) sums[i] += of[i];
    rows += metric.value_count(p.shape);
  }
  return metric.value(sums, rows, result);
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

// Metrics of classes, for targets of each form.
std::vector<std::pair<SharedMetric, TargetForm>> class_metrics() {
  return {{F1Score(), TargetForm::weights},
          {F1Score({.average = ClassAverage::macro, .threshold = 0.5}), TargetForm::weights},
          {MeanIoU({.num_classes = 5, .sparse_y_pred = false}), TargetForm::classes},
          {IoU({.num_classes = 9, .target_class_ids = {0, 2}}), TargetForm::values},
          {OneHotMeanIoU({.num_classes = 5, .ignore_class = 1}), TargetForm::weights},
          {PearsonCorrelation(), TargetForm::values},
          {ConcordanceCorrelation(), TargetForm::values},
          {PrecisionMetric({.top_k = 2}), TargetForm::weights},
          {Recall({.thresholds = Thresholds{0.6, 0.2}, .class_id = 4}), TargetForm::weights}};
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

TEST_CASE("metrics of classes are those of Keras 3.15 over two batches") {
  const Tensor p({6, 3}, {0.1, 0.4, 0.3, 0.35, 0.8, 0.8, 0.9, 0.65, 0.2, 0.5, 0.2, 0.6, 0.75, 0.05,
                          0.1, 0, 0, 0});
  const Tensor y({6, 3}, {0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1});
  const Tensor t({6, 3}, {0.2, 0.5, 0.1, 0.25, 1.8, -0.5, -0.9, 0.5, 0.6, 0.5, 0.1, 0.2, 0.7, 0.4,
                          0.3, 0.1, 0.9, -0.2});
  const Tensor numbers({6, 1}, {1, 1, 0, 0, 2, 2}), said({6, 1}, {1, 0.5, 0, 2, 2.9, 3});
  const auto rows = [](const Tensor& of, std::int64_t begin, std::int64_t end) {
    const std::int64_t columns = of.shape.back();
    return Tensor({end - begin, columns},
                  Values(of.values.begin() + begin * columns, of.values.begin() + end * columns));
  };
  const auto check = [&](const SharedMetric& metric, const Tensor& target, const Tensor& predicted,
                         const Values& expected, std::int64_t end = 6) {
    INFO(metric->name());
    REQUIRE(metric->results({-1, predicted.shape.back()}) == std::ssize(expected));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("result " << i);
      CHECK(value_of(*metric,
                     {{rows(predicted, 0, 4), rows(target, 0, 4)},
                      {rows(predicted, 4, end), rows(target, 4, end)}},
                     static_cast<std::int64_t>(i)) == Approx(expected[i]).epsilon(2e-6));
    }
  };
  check(F1Score(), y, p, {0.79999995, 1, 0});
  check(F1Score({.average = ClassAverage::micro}), y, p, {0.6666666});
  check(F1Score({.average = ClassAverage::macro, .threshold = 0.5}), y, p, {0.43333334});
  check(FBetaScore({.average = ClassAverage::weighted, .beta = 2}), y, p, {0.6904762});
  check(FBetaScore({.beta = 0.5, .threshold = 0.3}), y, p, {0.7894736, 0.7142857, 0});
  check(MeanIoU({.num_classes = 3}), numbers, said, {0.44444445});
  check(MeanIoU({.num_classes = 3, .sparse_y_pred = false}), numbers, p, {0.41666666});
  check(IoU({.num_classes = 3,
             .target_class_ids = {0, 2},
             .ignore_class = 1,
             .sparse_y_pred = false}),
        numbers, p, {0.125});
  check(OneHotMeanIoU({.num_classes = 3}), y, p, {0.5});
  check(OneHotIoU({.num_classes = 3, .target_class_ids = {1}}), y, p, {1});
  check(OneHotMeanIoU({.num_classes = 3, .ignore_class = 0}), y, p, {0.33333334});
  check(PearsonCorrelation(), t, p, {0.2834522}, 5);
  check(ConcordanceCorrelation(), t, p, {0.20503215});
  check(PrecisionMetric({.thresholds = Thresholds{0.3, 0.7, 0.1}}), y, p,
        {0.5555556, 0.75, 0.41666666});
  check(PrecisionMetric({.top_k = 2}), y, p, {0.41666666});
  check(PrecisionMetric({.thresholds = 0.6, .top_k = 2}), y, p, {0.6});
  check(PrecisionMetric({.top_k = 2, .class_id = 1}), y, p, {0.5});
  check(Recall({.class_id = 0}), y, p, {0.6666667});
  check(Recall({.top_k = 1, .class_id = 2}), y, p, {0});
  check(TruePositives({.thresholds = {0.1, 0.6}}), y, p, {5, 3});
}

TEST_CASE("metrics of classes split over every dimension") {
  const Shape shape = GENERATE(Shape{6, 5}, Shape{3, 2, 5});
  const Shape rows(shape.begin(), shape.end() - 1);
  for (const auto& [metric, form] : class_metrics()) {
    INFO(metric->name() << " of " << to_string(shape));
    // Numbers of classes, where they are predicted, are cut to integers.
    const Tensor p = random_tensor(shape, 1, 0, form == TargetForm::values ? 8.9 : 1);
    const Tensor t = form == TargetForm::classes   ? random_classes(rows, 5, 2)
                     : form == TargetForm::weights ? sides(shape, 2)
                                                   : random_tensor(shape, 2, 0, 8.9);
    check_strategies(*operation_of(*metric, p, t), forward_case(p, t), 1e-12);
  }
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
  CHECK_THROWS_WITH(BinaryIoU({.target_class_ids = {}}),
                    "BinaryIoU: target_class_ids: expected one class at least");
  CHECK_THROWS_WITH(IoU({.num_classes = 2}), "IoU: target_class_ids: expected one class at least");
  CHECK_THROWS_WITH(MeanIoU({}), Catch::Contains("MeanIoU: num_classes"));
  CHECK_THROWS_WITH(MeanIoU({.num_classes = std::int64_t{1} << 60}),
                    Catch::Contains("MeanIoU: num_classes"));
  CHECK_THROWS_WITH(OneHotIoU({.num_classes = 2, .target_class_ids = {2}}),
                    "OneHotIoU: target_class_ids: expected classes below 2 (num_classes), found 2");
  CHECK_THROWS_WITH(MeanIoU({.num_classes = 2, .sparse_y_true = false}),
                    Catch::Contains("set sparse_y_true: true, or sparse_y_pred: false"));
  CHECK_THROWS_WITH(F1Score({.threshold = 0}), Catch::Contains("F1Score: threshold"));
  for (const SharedMetric& metric :
       {MeanIoU({.num_classes = 1, .sparse_y_true = false, .sparse_y_pred = false}),
        OneHotMeanIoU({.num_classes = 1})}) {
    INFO(metric->name());
    CHECK_THROWS_WITH(value_of(*metric, first_p, first_y),
                      Catch::Contains("num_classes: predictions of shape (4, 2) have 2 classes"));
  }
  CHECK_THROWS_WITH(value_of(*Recall({.class_id = 2}), first_p, first_y),
                    Catch::Contains("class_id: expected a column of the predictions, below 2"));
}

}  // namespace meshwork::several_sums_test
