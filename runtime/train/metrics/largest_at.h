// The best of one share that a threshold can reach where it keeps another (threshold_metric.h;
// keras.io/api/metrics/classification_metrics). Thresholds lie evenly from 0 to 1.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct SensitivityAtSpecificityOptions {
  double specificity = -1;  // to be given, from 0 to 1
  std::int64_t num_thresholds = 200;
  std::string name = "sensitivity_at_specificity";
};
struct SpecificityAtSensitivityOptions {
  double sensitivity = -1;  // to be given, from 0 to 1
  std::int64_t num_thresholds = 200;
  std::string name = "specificity_at_sensitivity";
};
struct PrecisionAtRecallOptions {
  double recall = -1;  // to be given, from 0 to 1
  std::int64_t num_thresholds = 200;
  std::string name = "precision_at_recall";
};
struct RecallAtPrecisionOptions {
  double precision = -1;  // to be given, from 0 to 1
  std::int64_t num_thresholds = 200;
  std::string name = "recall_at_precision";
};

/// All throw `Error` for options out of range.
[[nodiscard]] SharedMetric SensitivityAtSpecificity(const SensitivityAtSpecificityOptions& options);
[[nodiscard]] SharedMetric SpecificityAtSensitivity(const SpecificityAtSensitivityOptions& options);
[[nodiscard]] SharedMetric PrecisionAtRecall(const PrecisionAtRecallOptions& options);
[[nodiscard]] SharedMetric RecallAtPrecision(const RecallAtPrecisionOptions& options);

}  // namespace meshwork
