#include "runtime/train/metrics/categorical_accuracy.h"

#include "runtime/train/metrics/class_rank.h"

namespace meshwork {

SharedMetric SparseCategoricalAccuracy(const SparseCategoricalAccuracyOptions& options) {
  return make_class_rank(options.name, "sparse_categorical_accuracy",
                         {.targets = TargetForm::classes, .k = 1});
}

SharedMetric CategoricalAccuracy(const CategoricalAccuracyOptions& options) {
  return make_class_rank(options.name, "categorical_accuracy",
                         {.targets = TargetForm::weights, .k = 1});
}

}  // namespace meshwork
