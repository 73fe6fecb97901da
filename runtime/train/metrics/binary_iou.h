// BinaryIoU: intersection over union of what is said to be of a class and what is, for the classes
// 0 and 1 (threshold_metric.h; keras.io/api/metrics/segmentation_metrics).
//
// A prediction is 1 if it is no less than the threshold. The mean over the `target_class_ids` of
// which there is anything; 0 if there is nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct BinaryIoUOptions {
  std::vector<std::int64_t> target_class_ids = {0, 1};
  double threshold = 0.5;
  std::string name = "binary_io_u";
};

/// All throw `Error` for options out of range.
[[nodiscard]] SharedMetric BinaryIoU(const BinaryIoUOptions& options = {});

}  // namespace meshwork
