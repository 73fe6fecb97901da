// How often the right class is among the k with the largest predictions; see class_rank.h for ties.
// If there are no more than k classes it always is.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct TopKCategoricalAccuracyOptions {
  std::int64_t k = 5;
  std::string name = "top_k_categorical_accuracy";
};
struct SparseTopKCategoricalAccuracyOptions {
  std::int64_t k = 5;
  std::string name = "sparse_top_k_categorical_accuracy";
};

/// Targets are weights, of which the largest is right. Throws `Error` for k < 1.
[[nodiscard]] SharedMetric TopKCategoricalAccuracy(
    const TopKCategoricalAccuracyOptions& options = {});
/// Targets are class numbers. Throws `Error` for k < 1.
[[nodiscard]] SharedMetric SparseTopKCategoricalAccuracy(
    const SparseTopKCategoricalAccuracyOptions& options = {});

}  // namespace meshwork
