// Counts of right and wrong predictions of yes or no, and their shares (threshold_metric.h;
// keras.io/api/metrics/classification_metrics). Each of several thresholds has a result of its own,
// "recall_0" and so on in the logs, in the order in which they are written.
//
// Precision is the share of what is positive in what is said to be, Recall that of what is said to
// be in what is. With `top_k`, only the k largest values of a row can be positive: each of them
// without `thresholds`, else those above. `class_id` counts that column alone. The function for the
// first is called PrecisionMetric: Precision is the numbers that products are computed in.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/node.h"
#include "runtime/train/metrics/metric.h"

namespace meshwork {

/// One threshold, as in `.thresholds = 0.5`, or several.
struct Thresholds {
  static constexpr const char* expected = "a number between 0 and 1, or a list of them";
  std::vector<double> values = {0.5};
  Thresholds() = default;
  Thresholds(double one) : values{one} {}
  Thresholds(std::initializer_list<double> several) : values(several) {}
};
void from_config(const ConfigNode& node, Thresholds& thresholds);
[[nodiscard]] std::string to_text(const Thresholds& thresholds);
[[nodiscard]] inline const std::vector<double>& numbers_of(const Thresholds& thresholds) {
  return thresholds.values;
}

struct TruePositivesOptions {
  static constexpr const char* about = "number of positive targets predicted to be positive";
  Thresholds thresholds;
  std::string name = "true_positives";
};
struct TrueNegativesOptions {
  static constexpr const char* about = "number of targets of 0 predicted to be 0";
  Thresholds thresholds;
  std::string name = "true_negatives";
};
struct FalsePositivesOptions {
  static constexpr const char* about = "number of targets of 0 predicted to be positive";
  Thresholds thresholds;
  std::string name = "false_positives";
};
struct FalseNegativesOptions {
  static constexpr const char* about = "number of positive targets predicted to be 0";
  Thresholds thresholds;
  std::string name = "false_negatives";
};
struct PrecisionMetricOptions {
  static constexpr const char* about = "share of positive targets among positive predictions";
  std::optional<Thresholds> thresholds;  // 0.5, or with top_k none
  std::optional<std::int64_t> top_k;
  std::optional<std::int64_t> class_id;
  std::string name = "precision";
};
struct RecallOptions {
  static constexpr const char* about =
      "share of positive targets that are predicted to be positive";
  std::optional<Thresholds> thresholds;  // 0.5, or with top_k none
  std::optional<std::int64_t> top_k;
  std::optional<std::int64_t> class_id;
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
