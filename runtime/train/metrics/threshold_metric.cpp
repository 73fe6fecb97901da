#include "runtime/train/metrics/threshold_metric.h"

#include <memory>
#include <utility>

#include "runtime/device/kernels/counts.h"
#include "runtime/graph/lowering.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {
namespace {

class ThresholdCountsOperation final : public ComparisonOperation {
 public:
  explicit ThresholdCountsOperation(std::vector<float> thresholds)
      : ComparisonOperation("threshold_counts", TargetForm::values),
        thresholds_(std::move(thresholds)) {}

  std::int64_t sum_count() const override {
    return 2 * ThresholdCountsSpec{.thresholds = thresholds_}.bins();
  }
  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return static_cast<double>(sum_count()) * static_cast<double>(element_count(inputs[0]));
  }
  void forward(Lowering& lowering) const override {
    lowering.emit(ThresholdCountsSpec{element_count(lowering.local_shape(0)), thresholds_},
                  {lowering.input(0), lowering.input(1), lowering.output()});
  }
  void backward(Lowering& lowering) const override { give_no_gradient(lowering); }

 private:
  std::vector<float> thresholds_;
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

SharedMetric make_threshold_metric(
    std::string name, Better better, std::vector<float> thresholds,
    std::function<double(std::span<const Confusion> confusions)> value) {
  return make_metric(std::move(name), TargetForm::values,
                     [thresholds = std::move(thresholds)](bool) {
                       return std::make_unique<ThresholdCountsOperation>(thresholds);
                     },
                     {better, [value = std::move(value)](std::span<const double> sums, double) {
                        return value(confusions_of(sums));
                      }});
}

}  // namespace meshwork
