// Metrics of yes or no: how many predictions above thresholds are right.
//
// A target that is not 0 is *positive*, and a prediction is if it is above the threshold, strictly.
// All values of a row count alike. A metric is worked out of four counts a threshold, over all that
// was seen; a ratio without anything below it is 0. Rule "bk,bk->": every axis splits what it
// likes, and the counts travel as sums (kernels/counts.h). Where the largest of rows count, rows
// are whole.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

/// What a threshold makes of all predictions.
struct Confusion {
  double true_positives = 0, false_positives = 0, true_negatives = 0, false_negatives = 0;

  [[nodiscard]] double precision() const;    // of what is said to be positive
  [[nodiscard]] double sensitivity() const;  // of what is positive; also the recall
  [[nodiscard]] double specificity() const;  // of what is negative
};

/// above / below, 0 where nothing is below.
[[nodiscard]] double ratio(double above, double below);

/// n thresholds from -margin to 1 + margin, even but for these ends; 0.5 alone for one.
[[nodiscard]] std::vector<float> even_thresholds(std::int64_t count, double margin);

/// What predictions are compared with these: with some that lie among probabilities, and none far
/// from them, probabilities.
[[nodiscard]] Predictions predictions_for(std::span<const float> thresholds);

/// Which values a metric is of: all, unless one says otherwise.
struct CountedValues {
  std::optional<std::int64_t> top_k = {};     // the largest of a row; others count as -infinity
  std::optional<std::int64_t> class_id = {};  // of this column
};

/// `value` of the confusions of the thresholds, which ascend: of one result, or of as many as
/// there are `results`.
[[nodiscard]] SharedMetric make_threshold_metric(
    std::string name, Better better, std::vector<float> thresholds,
    std::function<double(std::span<const Confusion> confusions, std::int64_t result)> value,
    std::int64_t results = 1, const CountedValues& counted = {});

}  // namespace meshwork
