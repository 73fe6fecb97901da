// Intersection over union of predicted and right classes
// (keras.io/api/metrics/segmentation_metrics).
//
// Of a class it is how often prediction and target say it together, over how often one of them
// does. IoU is the mean over the `target_class_ids` that somebody says, MeanIoU over all such
// classes; 0 if there is none. Classes that are not below `num_classes`, and rows whose right class
// is `ignore_class`, do not count.
//
// `sparse_y_true` and `sparse_y_pred` say that targets and predictions are class numbers; else they
// are a value for each class in the last dimension, of which the largest counts, the lowest of
// several; there are no more of them than classes. Predictions that are numbers are compared with
// targets that are float32. The kinds with OneHot take neither for numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct MeanIoUOptions {
  std::int64_t num_classes = 0;  // to be given
  std::optional<std::int64_t> ignore_class;
  bool sparse_y_true = true;
  bool sparse_y_pred = true;
  std::string name = "mean_io_u";
};
struct IoUOptions {
  std::int64_t num_classes = 0;                // to be given
  std::vector<std::int64_t> target_class_ids;  // to be given
  std::optional<std::int64_t> ignore_class;
  bool sparse_y_true = true;
  bool sparse_y_pred = true;
  std::string name = "io_u";
};
struct OneHotMeanIoUOptions {
  std::int64_t num_classes = 0;  // to be given
  std::optional<std::int64_t> ignore_class;
  std::string name = "one_hot_mean_io_u";
};
struct OneHotIoUOptions {
  std::int64_t num_classes = 0;                // to be given
  std::vector<std::int64_t> target_class_ids;  // to be given
  std::optional<std::int64_t> ignore_class;
  std::string name = "one_hot_io_u";
};

/// Throws `Error`, which names the metric, unless there are `classes`, all below `count`.
void check_classes_that_count(const char* class_name, const std::vector<std::int64_t>& classes,
                              std::int64_t count);

/// All throw `Error` for options out of range, and for targets of classes where predictions are
/// numbers of classes; when asked for their operation, for predictions of more classes.
[[nodiscard]] SharedMetric MeanIoU(const MeanIoUOptions& options);
[[nodiscard]] SharedMetric IoU(const IoUOptions& options);
[[nodiscard]] SharedMetric OneHotMeanIoU(const OneHotMeanIoUOptions& options);
[[nodiscard]] SharedMetric OneHotIoU(const OneHotIoUOptions& options);

}  // namespace meshwork
