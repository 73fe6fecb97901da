// How often the largest prediction is that of the right class; of equal ones the lowest counts.
//
// Predictions (batch, ..., classes), probabilities or logits alike. The sparse kind takes class
// numbers (batch, ...) or (batch, ..., 1), the other a weight for each class, of which the largest
// is right.
#pragma once

#include <string>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct SparseCategoricalAccuracyOptions {
  std::string name = "sparse_categorical_accuracy";
};
struct CategoricalAccuracyOptions {
  std::string name = "categorical_accuracy";
};

[[nodiscard]] SharedMetric SparseCategoricalAccuracy(
    const SparseCategoricalAccuracyOptions& options = {});
[[nodiscard]] SharedMetric CategoricalAccuracy(const CategoricalAccuracyOptions& options = {});

}  // namespace meshwork
