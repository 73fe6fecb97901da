#include "runtime/train/metrics/binary_accuracy.h"

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/losses.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {
namespace {

class BinaryMatchOperation final : public ComparisonOperation {
 public:
  explicit BinaryMatchOperation(double threshold)
      : ComparisonOperation("binary_accuracy", TargetForm::values), threshold_(threshold) {}

  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return static_cast<double>(element_count(inputs[0]));
  }

  void forward(Lowering& lowering) const override {
    const std::int64_t values = values_in_row(lowering.global_shape(0));
    lowering.emit(BinaryMatchSpec{.count = element_count(lowering.local_shape(0)),
                                  .scale = values > 0 ? 1 / static_cast<double>(values) : 0,
                                  .threshold = static_cast<float>(threshold_)},
                  {lowering.input(0), lowering.input(1), lowering.output()});
  }

  void backward(Lowering& lowering) const override { give_no_gradient(lowering); }

 private:
  double threshold_;
};

}  // namespace

template <class Visitor>
void describe(BinaryAccuracyOptions& options, Visitor& option) {
  option("threshold", options.threshold, finite, "above it a prediction is 1");
  option("name", options.name, "what logs call it");
}

SharedMetric BinaryAccuracy(const BinaryAccuracyOptions& options) {
  check_options("BinaryAccuracy", options);
  return make_metric(options.name, TargetForm::values, [options] {
    return std::make_unique<BinaryMatchOperation>(options.threshold);
  });
}

void add_binary_accuracy(Catalog& catalog) {
  catalog.add<SharedMetric, BinaryAccuracyOptions>("BinaryAccuracy", {"binary_accuracy"},
                                                   BinaryAccuracy);
}

}  // namespace meshwork
