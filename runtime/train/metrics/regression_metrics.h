// Metrics of errors that no loss gives (keras.io/api/metrics/regression_metrics).
//
// RootMeanSquaredError is the root of the mean over all that was seen; LogCoshError the loss
// LogCosh under the metric's name; CosineSimilarity the cosine itself, of which the loss is the
// negative (its function is CosineSimilarityMetric, because the loss has the name). R2Score is 1 -
// sum of (t - p)^2 / sum of (t - mean)^2 of each output, then the mean over outputs, or the mean
// weighted by the second sums. An output whose targets are all equal counts 0, as in Keras, and
// nothing where it is predicted exactly: NaN.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct RootMeanSquaredErrorOptions {
  static constexpr const char* about = "root of the mean of (p - t)^2";
  std::string name = "root_mean_squared_error";
};
struct LogCoshErrorOptions {
  static constexpr const char* about = "log(cosh(p - t))";
  std::string name = "logcosh";
};
struct CosineSimilarityMetricOptions {
  static constexpr const char* about = "cosine between prediction and target";
  std::string name = "cosine_similarity";
};
enum class OutputAverage : std::uint8_t { uniform, by_variance };
struct R2ScoreOptions {
  OutputAverage class_aggregation = OutputAverage::uniform;
  std::string name = "r2_score";
};

/// All throw `Error` for options out of range.
[[nodiscard]] SharedMetric RootMeanSquaredError(const RootMeanSquaredErrorOptions& options = {});
[[nodiscard]] SharedMetric LogCoshError(const LogCoshErrorOptions& options = {});
[[nodiscard]] SharedMetric CosineSimilarityMetric(
    const CosineSimilarityMetricOptions& options = {});
[[nodiscard]] SharedMetric R2Score(const R2ScoreOptions& options = {});

}  // namespace meshwork
