#include "runtime/train/metrics/binary_iou.h"

#include <cmath>

#include "runtime/train/from_config.h"
#include "runtime/train/metrics/iou.h"
#include "runtime/train/metrics/threshold_metric.h"

namespace meshwork {

template <class Visitor>
void describe(BinaryIoUOptions& options, Visitor& option) {
  option.about("intersection over union of predicted and right classes of 0 and 1");
  option("target_class_ids", options.target_class_ids, between(0, 1),
         "classes that count, one at least");
  option("threshold", options.threshold, between(0, 1), "predictions of at least this are 1");
  option("name", options.name, "name in the logs");
}

SharedMetric BinaryIoU(const BinaryIoUOptions& options) {
  check_options("BinaryIoU", options);
  check_classes_that_count("BinaryIoU", options.target_class_ids, 2);
  // No less than the threshold is above the number before it.
  const float below = std::nextafter(static_cast<float>(options.threshold), -1.0f);
  return make_threshold_metric(
      options.name, Better::higher, {below},
      [classes = options.target_class_ids](std::span<const Confusion> confusions, std::int64_t) {
        const Confusion& of = confusions.front();
        double sum = 0, count = 0;
        for (const std::int64_t one : classes) {
          const double both = one == 1 ? of.true_positives : of.true_negatives;
          const double either = both + of.false_positives + of.false_negatives;
          sum += ratio(both, either);
          count += either > 0 ? 1 : 0;
        }
        return ratio(sum, count);
      });
}

void add_binary_iou(Catalog& catalog) {
  catalog.add<SharedMetric, BinaryIoUOptions>("BinaryIoU", {"binary_io_u"}, BinaryIoU);
}

}  // namespace meshwork
