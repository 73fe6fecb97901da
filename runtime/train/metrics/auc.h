// AUC: the area under a curve of two shares over all thresholds (threshold_metric.h;
// keras.io/api/metrics/classification_metrics).
//
// ROC has the sensitivity over 1 - specificity, PR the precision over the recall. Thresholds lie
// evenly from 0 to 1, the ends just outside. Between two, `interpolation` takes the trapezoid, or
// for PR the area under the curve along which true and false positives grow evenly (Davis and
// Goadrich 2006, section 4); `minoring` and `majoring` take the lower and the higher side. Keras's
// `multi_label`, `label_weights` and lists of thresholds are not there.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

enum class AucCurve : std::uint8_t { roc, pr };
enum class AucSummation : std::uint8_t { interpolation, minoring, majoring };
struct AUCOptions {
  std::int64_t num_thresholds = 200;
  AucCurve curve = AucCurve::roc;
  AucSummation summation_method = AucSummation::interpolation;
  bool from_logits = false;
  std::string name = "auc";
};

/// All throw `Error` for options out of range.
[[nodiscard]] SharedMetric AUC(const AUCOptions& options = {});

}  // namespace meshwork
