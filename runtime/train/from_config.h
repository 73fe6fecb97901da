// Losses, metrics, optimizers, schedules and callbacks as configurations write them: the one place
// that knows them all by name.
//
//     loss: {SparseCategoricalCrossentropy: {from_logits: true}}      # or only the name; or mse
//     optimizer: {Adam: {learning_rate: {CosineDecay: {initial_learning_rate: 0.1,
//                                                      decay_steps: 500}}}}
//     metrics: [accuracy, {SparseTopKCategoricalAccuracy: {k: 3}}]
//     callbacks: [{CSVLogger: {file: log.csv}}, {EarlyStopping: {patience: 2}}]
//
// Each is its class, with options by Keras's names and defaults, or one of the short names that
// Keras takes (`mse`, `adam`). A metric that is written by a short name is shown under it; `name`
// gives it another. Every loss is a metric too. All functions throw `ConfigError` with the place:
// an unknown class or option with the nearest right one, and values that do not fit.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/node.h"
#include "runtime/train/callback.h"
#include "runtime/train/loss.h"
#include "runtime/train/optimizer.h"

namespace meshwork {

[[nodiscard]] SharedLoss loss_from_config(const ConfigNode& node);
[[nodiscard]] SharedMetric metric_from_config(const ConfigNode& node);
/// A list of metrics, no two of one name; null is an empty one.
[[nodiscard]] std::vector<SharedMetric> metrics_from_config(const ConfigNode& node);

/// A number, which is a constant rate, or a schedule.
[[nodiscard]] Schedule schedule_from_config(const ConfigNode& node);
[[nodiscard]] Optimizer optimizer_from_config(const ConfigNode& node);

/// LearningRateScheduler, whose function cannot be written down, takes `schedule`: a schedule that
/// is read at the number of the epoch.
[[nodiscard]] SharedCallback callback_from_config(const ConfigNode& node);
/// A list of callbacks; null is an empty one.
[[nodiscard]] std::vector<SharedCallback> callbacks_from_config(const ConfigNode& node);

}  // namespace meshwork
