#include "runtime/train/metrics/accuracy.h"

#include "runtime/train/from_config.h"
#include "runtime/train/metrics/binary_accuracy.h"
#include "runtime/train/metrics/categorical_accuracy.h"

namespace meshwork {

SharedMetric Accuracy(const AccuracyOptions& options) {
  return metric_by_shapes(options.name, Better::higher,
                          [](const Shape& prediction, const Shape& target) -> SharedMetric {
                            if (prediction.size() < 2 || prediction.back() == 1) {
                              return BinaryAccuracy();
                            }
                            if (target.size() < prediction.size() || target.back() == 1) {
                              return SparseCategoricalAccuracy();
                            }
                            return CategoricalAccuracy();
                          });
}

void add_accuracy(Catalog& catalog) {
  catalog.add<SharedMetric, AccuracyOptions>("Accuracy", {"accuracy", "acc"}, Accuracy);
}

}  // namespace meshwork
