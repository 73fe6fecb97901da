// Correlations between the values of a row of predictions and of targets, then the mean over rows
// (keras.io/api/metrics/regression_metrics).
//
// PearsonCorrelation is cov(p, t) / (deviation of p * deviation of t), NaN for a row of which
// either is constant. ConcordanceCorrelation is 2 cov(p, t) / (variance of p + variance of t +
// (difference of means)^2 + epsilon).
#pragma once

#include <string>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct PearsonCorrelationOptions {
  static constexpr const char* about =
      "Pearson correlation between the values of a row and its targets";
  std::string name = "pearson_correlation";
};
struct ConcordanceCorrelationOptions {
  static constexpr const char* about =
      "concordance correlation between the values of a row and its targets";
  std::string name = "concordance_correlation";
};

[[nodiscard]] SharedMetric PearsonCorrelation(const PearsonCorrelationOptions& options = {});
[[nodiscard]] SharedMetric ConcordanceCorrelation(
    const ConcordanceCorrelationOptions& options = {});

}  // namespace meshwork
