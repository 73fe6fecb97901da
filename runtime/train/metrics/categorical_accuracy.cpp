#include "runtime/train/metrics/categorical_accuracy.h"

#include "runtime/train/from_config.h"
#include "runtime/train/metrics/class_rank.h"

namespace meshwork {

template <class Visitor>
void describe(SparseCategoricalAccuracyOptions& options, Visitor& option) {
  option("name", options.name, "what logs call it");
}

template <class Visitor>
void describe(CategoricalAccuracyOptions& options, Visitor& option) {
  option("name", options.name, "what logs call it");
}

SharedMetric SparseCategoricalAccuracy(const SparseCategoricalAccuracyOptions& options) {
  return make_class_rank(options.name, "sparse_categorical_accuracy",
                         {.targets = TargetForm::classes, .k = 1});
}

SharedMetric CategoricalAccuracy(const CategoricalAccuracyOptions& options) {
  return make_class_rank(options.name, "categorical_accuracy",
                         {.targets = TargetForm::weights, .k = 1});
}

void add_categorical_accuracy(Catalog& catalog) {
  catalog.add<SharedMetric, SparseCategoricalAccuracyOptions>(
      "SparseCategoricalAccuracy", {"sparse_categorical_accuracy"}, SparseCategoricalAccuracy);
  catalog.add<SharedMetric, CategoricalAccuracyOptions>(
      "CategoricalAccuracy", {"categorical_accuracy"}, CategoricalAccuracy);
}

}  // namespace meshwork
