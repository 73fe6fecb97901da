// The accuracy that fits, chosen by shapes as in Keras (keras/src/trainers/compile_utils.py): a
// last dimension of 1 in the prediction makes it binary; a target of fewer dimensions, or with a
// last dimension of 1, sparse categorical; anything else categorical. So predictions of several yes
// or no values a sample are taken for classes; say BinaryAccuracy for these.
#pragma once

#include <string>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct AccuracyOptions {
  static constexpr const char* about =
      "BinaryAccuracy, SparseCategoricalAccuracy or CategoricalAccuracy, by the shapes";
  std::string name = "accuracy";
};

[[nodiscard]] SharedMetric Accuracy(const AccuracyOptions& options = {});

}  // namespace meshwork
