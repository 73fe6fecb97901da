#include "runtime/train/metrics/top_k_categorical_accuracy.h"

#include "collectives/error.h"
#include "runtime/train/from_config.h"
#include "runtime/train/metrics/class_rank.h"

namespace meshwork {

template <class Visitor>
void describe(TopKCategoricalAccuracyOptions& options, Visitor& option) {
  option("k", options.k, at_least(1), "how many of the best classes count");
  option("name", options.name, "what logs call it");
}

template <class Visitor>
void describe(SparseTopKCategoricalAccuracyOptions& options, Visitor& option) {
  option("k", options.k, at_least(1), "how many of the best classes count");
  option("name", options.name, "what logs call it");
}

SharedMetric TopKCategoricalAccuracy(const TopKCategoricalAccuracyOptions& options) {
  check_options("TopKCategoricalAccuracy", options);
  return make_class_rank(options.name, "top_k_categorical_accuracy",
                         {.targets = TargetForm::weights, .k = options.k});
}

SharedMetric SparseTopKCategoricalAccuracy(const SparseTopKCategoricalAccuracyOptions& options) {
  check_options("SparseTopKCategoricalAccuracy", options);
  return make_class_rank(options.name, "sparse_top_k_categorical_accuracy",
                         {.targets = TargetForm::classes, .k = options.k});
}

void add_top_k_categorical_accuracy(Catalog& catalog) {
  catalog.add<SharedMetric, TopKCategoricalAccuracyOptions>(
      "TopKCategoricalAccuracy", {"top_k_categorical_accuracy"}, TopKCategoricalAccuracy);
  catalog.add<SharedMetric, SparseTopKCategoricalAccuracyOptions>(
      "SparseTopKCategoricalAccuracy", {"sparse_top_k_categorical_accuracy"},
      SparseTopKCategoricalAccuracy);
}

}  // namespace meshwork
