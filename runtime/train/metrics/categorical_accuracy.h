// How far ahead the right class stands: accuracies over classes, and top-k.
//
// Predictions (batch, ..., classes), probabilities or logits alike. The sparse kinds take class
// numbers (batch, ...) or (batch, ..., 1), the others a weight for each class, of which the largest
// is right.
//
// A row counts 1 if fewer than k classes stand before the right one in descending order of the
// predictions, else 0; of equal predictions the lower class stands first. With k = 1 that is "the
// right class is the argmax", and with no more than k classes it always counts. Keras's top-k
// counts every class that ties with the k-th instead, so that a constant prediction is always right
// there.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct SparseCategoricalAccuracyOptions {
  static constexpr const char* about =
      "share of rows whose largest prediction is the right class, for class numbers";
  std::string name = "sparse_categorical_accuracy";
};
struct CategoricalAccuracyOptions {
  static constexpr const char* about =
      "share of rows whose largest prediction is the right class, for one-hot targets";
  std::string name = "categorical_accuracy";
};
struct SparseTopKCategoricalAccuracyOptions {
  static constexpr const char* about =
      "share of rows with the right class among the k largest predictions, for class numbers";
  std::int64_t k = 5;
  std::string name = "sparse_top_k_categorical_accuracy";
};
struct TopKCategoricalAccuracyOptions {
  static constexpr const char* about =
      "share of rows with the right class among the k largest predictions, for one-hot targets";
  std::int64_t k = 5;
  std::string name = "top_k_categorical_accuracy";
};

[[nodiscard]] SharedMetric SparseCategoricalAccuracy(
    const SparseCategoricalAccuracyOptions& options = {});
[[nodiscard]] SharedMetric CategoricalAccuracy(const CategoricalAccuracyOptions& options = {});
/// Both throw `Error` for k < 1.
[[nodiscard]] SharedMetric SparseTopKCategoricalAccuracy(
    const SparseTopKCategoricalAccuracyOptions& options = {});
[[nodiscard]] SharedMetric TopKCategoricalAccuracy(
    const TopKCategoricalAccuracyOptions& options = {});

}  // namespace meshwork
