// Counts of right and wrong predictions of yes or no, and their shares (threshold_metric.h;
// keras.io/api/metrics/classification_metrics). Keras's lists of thresholds, `top_k` and `class_id`
// are not there: a metric is one number, of all values.
//
// Precision is the share of what is positive in what is said to be, Recall that of what is said to
// be in what is. The function for the first is called PrecisionMetric: Precision is the numbers
// that products are computed in.
#pragma once

#include <string>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct TruePositivesOptions {
  static constexpr const char* about = "how many positive targets are predicted to be";
  double thresholds = 0.5;
  std::string name = "true_positives";
};
struct TrueNegativesOptions {
  static constexpr const char* about = "how many targets of 0 are predicted to be";
  double thresholds = 0.5;
  std::string name = "true_negatives";
};
struct FalsePositivesOptions {
  static constexpr const char* about = "how many targets of 0 are predicted to be positive";
  double thresholds = 0.5;
  std::string name = "false_positives";
};
struct FalseNegativesOptions {
  static constexpr const char* about = "how many positive targets are predicted to be 0";
  double thresholds = 0.5;
  std::string name = "false_negatives";
};
struct PrecisionMetricOptions {
  static constexpr const char* about =
      "share of positive targets among what is predicted to be positive";
  double thresholds = 0.5;
  std::string name = "precision";
};
struct RecallOptions {
  static constexpr const char* about =
      "share of the positive targets that is predicted to be positive";
  double thresholds = 0.5;
  std::string name = "recall";
};

/// All throw `Error` for options out of range.
[[nodiscard]] SharedMetric TruePositives(const TruePositivesOptions& options = {});
[[nodiscard]] SharedMetric TrueNegatives(const TrueNegativesOptions& options = {});
[[nodiscard]] SharedMetric FalsePositives(const FalsePositivesOptions& options = {});
[[nodiscard]] SharedMetric FalseNegatives(const FalseNegativesOptions& options = {});
[[nodiscard]] SharedMetric PrecisionMetric(const PrecisionMetricOptions& options = {});
[[nodiscard]] SharedMetric Recall(const RecallOptions& options = {});

}  // namespace meshwork
