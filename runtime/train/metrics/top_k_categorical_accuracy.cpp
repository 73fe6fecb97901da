#include "runtime/train/metrics/top_k_categorical_accuracy.h"

#include "collectives/error.h"
#include "runtime/train/metrics/class_rank.h"

namespace meshwork {
namespace {

void check_k(std::int64_t k, const char* what) {
  if (k < 1) {
    fail("{}: expected k of at least 1, found {}", what, k);
  }
}

}  // namespace

SharedMetric TopKCategoricalAccuracy(const TopKCategoricalAccuracyOptions& options) {
  check_k(options.k, "TopKCategoricalAccuracy");
  return make_class_rank(options.name, "top_k_categorical_accuracy",
                         {.targets = TargetForm::weights, .k = options.k});
}

SharedMetric SparseTopKCategoricalAccuracy(const SparseTopKCategoricalAccuracyOptions& options) {
  check_k(options.k, "SparseTopKCategoricalAccuracy");
  return make_class_rank(options.name, "sparse_top_k_categorical_accuracy",
                         {.targets = TargetForm::classes, .k = options.k});
}

}  // namespace meshwork
