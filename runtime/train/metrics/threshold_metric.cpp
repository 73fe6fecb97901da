#include "runtime/train/metrics/threshold_metric.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/kernels/counts.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {
namespace {

class ThresholdCountsOperation final : public ComparisonOperation {
 public:
  ThresholdCountsOperation(std::vector<float> thresholds, const CountedValues& counted)
      : ComparisonOperation("threshold_counts", TargetForm::values),
        thresholds_(std::move(thresholds)),
        counted_(counted) {}

  std::int64_t sum_count() const override {
    return 2 * ThresholdCountsSpec{.thresholds = thresholds_}.bins();
  }
  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return static_cast<double>(sum_count()) * static_cast<double>(element_count(inputs[0]));
  }
  void forward(Lowering& lowering) const override {
    const LocalColumns at = local_columns(lowering);
    const Operand prediction = counted_.top_k ? largest_only(lowering, at) : lowering.input(0);
    const Operand target = lowering.input(1), counts = lowering.output();
    if (!counted_.class_id) {
      lowering.emit(ThresholdCountsSpec{at.rows * at.count, thresholds_},
                    {prediction, target, counts});
      return;
    }
    const std::int64_t columns = values_in_row(lowering.global_shape(0));
    if (*counted_.class_id >= columns) {
      fail("class_id: expected a column of the predictions, below {}, found {}", columns,
           *counted_.class_id);
    }
    const std::int64_t column = *counted_.class_id - at.first;
    if (column < 0 || column >= at.count || at.rows == 0) {
      lowering.emit(ZeroSpec{sum_count() * element_bytes(ElementType::float64)}, {counts});
      return;
    }
    lowering.emit(ThresholdCountsSpec{at.rows, thresholds_, at.count},
                  {prediction.after(column), target.after(column), counts});
  }
  void backward(Lowering& lowering) const override { give_no_gradient(lowering); }

 protected:
  std::string whole_letters(const std::string&) const override {
    return counted_.top_k ? std::string(class_letter) : "";
  }

 private:
  Operand largest_only(Lowering& lowering, const LocalColumns& at) const {
    const Operand x = lowering.input(0);
    const Operand least = lowering.scratch("least of the largest", at.rows);
    const Operand column = lowering.scratch("column of that", at.rows, ElementType::int32);
    const Operand y = lowering.scratch("largest alone", at.rows * at.count);
    lowering.emit(LargestEndSpec{at.rows, at.count, *counted_.top_k}, {x, least, column});
    lowering.emit(LargestOnlySpec{at.rows, at.count}, {x, least, column, y});
    return y;
  }

  std::vector<float> thresholds_;
  CountedValues counted_;
};

// Of counts by bins (ThresholdCountsSpec): what is above a threshold is in the bins behind it.
std::vector<Confusion> confusions_of(std::span<const double> counts) {
  const std::size_t bins = counts.size() / 2;
  Confusion all;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    all.true_positives += counts[bin];
    all.false_positives += counts[bins + bin];
  }
  std::vector<Confusion> confusions;
  for (std::size_t bin = 0; bin + 1 < bins; ++bin) {
    all.true_positives -= counts[bin];
    all.false_negatives += counts[bin];
    all.false_positives -= counts[bins + bin];
    all.true_negatives += counts[bins + bin];
    confusions.push_back(all);
  }
  return confusions;
}

}  // namespace

double ratio(double above, double below) {
  return below == 0 ? 0 : above / below;
}

double Confusion::precision() const {
  return ratio(true_positives, true_positives + false_positives);
}
double Confusion::sensitivity() const {
  return ratio(true_positives, true_positives + false_negatives);
}
double Confusion::specificity() const {
  return ratio(true_negatives, true_negatives + false_positives);
}

std::vector<float> even_thresholds(std::int64_t count, double margin) {
  if (count == 1) return {0.5f};
  std::vector<float> thresholds;
  for (std::int64_t i = 0; i < count; ++i) {
    thresholds.push_back(
        static_cast<float>(static_cast<double>(i) / static_cast<double>(count - 1)));
  }
  thresholds.front() = static_cast<float>(-margin);
  thresholds.back() = static_cast<float>(1 + margin);
  return thresholds;
}

Predictions predictions_for(std::span<const float> thresholds) {
  const auto between = [](float low, float high) {
    return [=](float threshold) { return low < threshold && threshold < high; };
  };
  return std::ranges::all_of(thresholds, between(-0.01f, 1.01f)) &&
                 std::ranges::any_of(thresholds, between(0, 1))
             ? Predictions::probabilities
             : Predictions::any;
}

SharedMetric make_threshold_metric(
    std::string name, Better better, std::vector<float> thresholds,
    std::function<double(std::span<const Confusion> confusions, std::int64_t result)> value,
    std::int64_t results, const CountedValues& counted) {
  const Predictions predictions = predictions_for(thresholds);
  return make_metric(
      std::move(name), TargetForm::values,
      [thresholds = std::move(thresholds), counted](bool) {
        return std::make_unique<ThresholdCountsOperation>(thresholds, counted);
      },
      {.better = better,
       .value = [value = std::move(value)](
                    std::span<const double> sums, double,
                    std::int64_t result) { return value(confusions_of(sums), result); },
       .results = [results](const Shape&) { return results; },
       .predictions = predictions});
}

}  // namespace meshwork
