#include "runtime/train/metrics/binary_accuracy.h"

#include "runtime/device/kernels/losses.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/value_comparison.h"
#include "runtime/train/metrics/threshold_metric.h"

namespace meshwork {

template <class Visitor>
void describe(BinaryAccuracyOptions& options, Visitor& option) {
  option.about("share of predictions on the target's side of the threshold");
  option("threshold", options.threshold, any_finite, "predictions above it count as 1");
  option("name", options.name, "name in the logs");
}

SharedMetric BinaryAccuracy(const BinaryAccuracyOptions& options) {
  check_options("BinaryAccuracy", options);
  const auto threshold = static_cast<float>(options.threshold);
  return make_value_metric(
      options.name, "binary_accuracy",
      {.sum =
           [threshold](std::int64_t count, double scale, std::int64_t values_a_weight) {
             return BinaryMatchSpec{count, scale, threshold, values_a_weight};
           },
       .flops = 1},
      predictions_for({{threshold}}));
}

void add_binary_accuracy(Catalog& catalog) {
  catalog.add<SharedMetric, BinaryAccuracyOptions>("BinaryAccuracy", {"binary_accuracy"},
                                                   BinaryAccuracy);
}

}  // namespace meshwork
