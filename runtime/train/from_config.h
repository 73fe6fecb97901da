// Losses, metrics, optimizers, schedules and callbacks as configurations write them, of the classes
// that a catalog has.
//
//     loss: {SparseCategoricalCrossentropy: {from_logits: true}}      # or only the name; or mse
//     optimizer: {Adam: {learning_rate: {CosineDecay: {initial_learning_rate: 0.1,
//                                                      decay_steps: 500}}}}
//     metrics: [accuracy, {SparseTopKCategoricalAccuracy: {k: 3}}]
//     callbacks: [{CSVLogger: {filename: log.csv}}, {EarlyStopping: {patience: 2}}]
//
// Each is its class, with options by Keras's names and defaults, or one of the short names that
// Keras takes (`mse`, `adam`). A metric that is written by a short name is shown under it; `name`
// gives it another. Every loss is a metric too. LearningRateScheduler, whose function cannot be
// written down, takes a schedule that is read at the number of the epoch. All functions throw
// `ConfigError` with the place: an unknown class or option with the nearest right one, and values
// that do not fit.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/catalog.h"
#include "runtime/train/callbacks/callback.h"
#include "runtime/train/losses/loss.h"
#include "runtime/train/optimizers/optimizer.h"

namespace meshwork {

template <>
struct KindOf<SharedLoss> {
  static constexpr const char* word = "loss";
  static constexpr const char* article = "a loss";
};
template <>
struct KindOf<SharedMetric> {
  static constexpr const char* word = "metric";
  static constexpr const char* article = "a metric";
};
template <>
struct KindOf<Optimizer> {
  static constexpr const char* word = "optimizer";
  static constexpr const char* article = "an optimizer";
};
template <>
struct KindOf<Schedule> {
  static constexpr const char* word = "schedule";
  static constexpr const char* article = "a number or a schedule";
};
template <>
struct KindOf<SharedCallback> {
  static constexpr const char* word = "callback";
  static constexpr const char* article = "a callback";
};

/// Describes options of a loss or a metric that has no other than its name in logs. `about`, a
/// constant of the options, says what it computes.
template <class Options, class Visitor>
requires(sizeof(Options) == sizeof(Options::name)) void describe(Options& options,
                                                                 Visitor& option) {
  option.about(Options::about);
  option("name", options.name, "name in the logs");
}

/// Describes options of a cross-entropy, which may smooth its targets.
template <class Options, class Visitor>
requires requires(Options options) {
  options.from_logits;
}
void describe(Options& options, Visitor& option) {
  option.about(Options::about);
  option("from_logits", options.from_logits, "predictions are logits, not probabilities");
  if constexpr (requires { options.label_smoothing; }) {
    option("label_smoothing", options.label_smoothing, between(0, 1),
           "share of each target that is spread over all classes");
  }
  if constexpr (requires { options.ignore_class; }) {
    option(
        "ignore_class", options.ignore_class,
        between(std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()),
        "class of target rows to ignore, such as -1");
  }
  option("name", options.name, "name in the logs");
}

/// A number, which is a constant rate, or a schedule.
void from_config(const ConfigNode& node, Schedule& schedule, const Catalog& catalog);
/// "0.1", or "ExponentialDecay of decay_steps 10, ...".
[[nodiscard]] std::string to_text(const Schedule& schedule);

[[nodiscard]] SharedMetric metric_from_config(const ConfigNode& node, const Catalog& catalog);
/// A list of metrics, no two of one name; null is an empty one.
[[nodiscard]] std::vector<SharedMetric> metrics_from_config(const ConfigNode& node,
                                                            const Catalog& catalog);
[[nodiscard]] std::string to_text(const SharedCallback& callback);

}  // namespace meshwork
