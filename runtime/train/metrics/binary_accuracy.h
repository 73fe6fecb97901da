// How often (p > threshold) equals t, strictly above; the mean over the last dimension, then over
// rows.
#pragma once

#include <string>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct BinaryAccuracyOptions {
  double threshold = 0.5;
  std::string name = "binary_accuracy";
};

/// Throws `Error` for a threshold that is not a number.
[[nodiscard]] SharedMetric BinaryAccuracy(const BinaryAccuracyOptions& options = {});

}  // namespace meshwork
