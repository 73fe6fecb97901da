#include "runtime/train/from_config.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "runtime/config/reader.h"
#include "runtime/train/callbacks/csv_logger.h"
#include "runtime/train/callbacks/early_stopping.h"
#include "runtime/train/callbacks/learning_rate_scheduler.h"
#include "runtime/train/callbacks/reduce_lr_on_plateau.h"
#include "runtime/train/callbacks/terminate_on_nan.h"
#include "runtime/train/losses/binary_crossentropy.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_absolute_error.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/losses/sparse_categorical_crossentropy.h"
#include "runtime/train/metrics/accuracy.h"
#include "runtime/train/metrics/binary_accuracy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/metrics/top_k_categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/rmsprop.h"
#include "runtime/train/optimizers/sgd.h"

namespace meshwork {
namespace {

const ValueRange unit = between(0, 1);

// One class: its name, the short names that stand for it, and how it is made of its options.
template <class Value>
struct Kind {
  std::string class_name;
  std::vector<std::string> short_names;
  std::function<Value(ConfigReader& options)> make;
};

template <class Value>
const Kind<Value>* find(const std::vector<Kind<Value>>& kinds, const std::string& name) {
  for (const Kind<Value>& kind : kinds) {
    if (kind.class_name == name ||
        std::count(kind.short_names.begin(), kind.short_names.end(), name) > 0) {
      return &kind;
    }
  }
  return nullptr;
}

// What `node` names: `what` and `a_what` stand for it in messages.
template <class Value>
Value make(const ConfigNode& node, const char* what, const char* a_what,
           const std::vector<Kind<Value>>& kinds) {
  const ConfigEntry entry = node.single_entry(a_what);
  const Kind<Value>* kind = find(kinds, entry.name);
  if (!kind) {
    std::vector<std::string> known;
    for (const Kind<Value>& other : kinds) {
      known.push_back(other.class_name);
    }
    throw entry.key.unknown(what, known);
  }
  return entry.value.located([&] {
    ConfigReader options(entry.value);
    return kind->make(options);
  });
}

// ---- losses and metrics ------------------------------------------------------------------------

// A loss or metric that has no option but its name.
template <class Options>
Options read_name(ConfigReader& reader) {
  Options options;
  reader.optional("name", options.name);
  reader.finish();
  return options;
}

SparseCategoricalCrossentropyOptions read_sparse_crossentropy(ConfigReader& reader) {
  SparseCategoricalCrossentropyOptions options;
  reader.optional("from_logits", options.from_logits);
  reader.optional("name", options.name);
  reader.finish();
  return options;
}

// CategoricalCrossentropyOptions or BinaryCrossentropyOptions.
template <class Options>
Options read_smoothed_crossentropy(ConfigReader& reader) {
  Options options;
  reader.optional("from_logits", options.from_logits);
  reader.optional("label_smoothing", options.label_smoothing, unit);
  reader.optional("name", options.name);
  reader.finish();
  return options;
}

std::vector<Kind<SharedLoss>> losses() {
  return {
      {"MeanSquaredError",
       {"mean_squared_error", "mse", "MSE"},
       [](ConfigReader& reader) {
         return MeanSquaredError(read_name<MeanSquaredErrorOptions>(reader));
       }},
      {"MeanAbsoluteError",
       {"mean_absolute_error", "mae", "MAE"},
       [](ConfigReader& reader) {
         return MeanAbsoluteError(read_name<MeanAbsoluteErrorOptions>(reader));
       }},
      {"SparseCategoricalCrossentropy",
       {"sparse_categorical_crossentropy"},
       [](ConfigReader& reader) {
         return SparseCategoricalCrossentropy(read_sparse_crossentropy(reader));
       }},
      {"CategoricalCrossentropy",
       {"categorical_crossentropy"},
       [](ConfigReader& reader) {
         return CategoricalCrossentropy(
             read_smoothed_crossentropy<CategoricalCrossentropyOptions>(reader));
       }},
      {"BinaryCrossentropy",
       {"binary_crossentropy", "bce", "BCE"},
       [](ConfigReader& reader) {
         return BinaryCrossentropy(read_smoothed_crossentropy<BinaryCrossentropyOptions>(reader));
       }},
  };
}

template <class Options>
Options read_top_k(ConfigReader& reader) {
  Options options;
  reader.optional("k", options.k, at_least(1));
  reader.optional("name", options.name);
  reader.finish();
  return options;
}

BinaryAccuracyOptions read_binary_accuracy(ConfigReader& reader) {
  BinaryAccuracyOptions options;
  reader.optional("threshold", options.threshold, finite);
  reader.optional("name", options.name);
  reader.finish();
  return options;
}

std::vector<Kind<SharedMetric>> metrics() {
  std::vector<Kind<SharedMetric>> kinds{
      {"Accuracy",
       {"accuracy", "acc"},
       [](ConfigReader& reader) { return Accuracy(read_name<AccuracyOptions>(reader)); }},
      {"SparseCategoricalAccuracy",
       {"sparse_categorical_accuracy"},
       [](ConfigReader& reader) {
         return SparseCategoricalAccuracy(read_name<SparseCategoricalAccuracyOptions>(reader));
       }},
      {"CategoricalAccuracy",
       {"categorical_accuracy"},
       [](ConfigReader& reader) {
         return CategoricalAccuracy(read_name<CategoricalAccuracyOptions>(reader));
       }},
      {"BinaryAccuracy",
       {"binary_accuracy"},
       [](ConfigReader& reader) { return BinaryAccuracy(read_binary_accuracy(reader)); }},
      {"TopKCategoricalAccuracy",
       {"top_k_categorical_accuracy"},
       [](ConfigReader& reader) {
         return TopKCategoricalAccuracy(read_top_k<TopKCategoricalAccuracyOptions>(reader));
       }},
      {"SparseTopKCategoricalAccuracy",
       {"sparse_top_k_categorical_accuracy"},
       [](ConfigReader& reader) {
         return SparseTopKCategoricalAccuracy(
             read_top_k<SparseTopKCategoricalAccuracyOptions>(reader));
       }},
  };
  for (Kind<SharedLoss>& loss : losses()) {
    kinds.push_back({loss.class_name, loss.short_names, std::move(loss.make)});
  }
  return kinds;
}

// A metric under another name.
class RenamedMetric final : public Metric {
 public:
  RenamedMetric(SharedMetric metric, std::string name)
      : metric_(std::move(metric)), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  Better better() const override { return metric_->better(); }
  std::unique_ptr<Operation> operation(const Shape& prediction,
                                       const Shape& target) const override {
    return metric_->operation(prediction, target);
  }
  double value_count(const Shape& prediction, const Shape& target) const override {
    return metric_->value_count(prediction, target);
  }
  std::int64_t target_classes(const Shape& prediction, const Shape& target) const override {
    return metric_->target_classes(prediction, target);
  }

 private:
  SharedMetric metric_;
  std::string name_;
};

// ---- optimizers and schedules ------------------------------------------------------------------

std::vector<Kind<Schedule>> schedules() {
  return {
      {"CosineDecay",
       {},
       [](ConfigReader& reader) {
         CosineDecayOptions options;
         reader.required("initial_learning_rate", options.initial_learning_rate,
                         finite_not_negative);
         reader.required("decay_steps", options.decay_steps, positive);
         reader.optional("alpha", options.alpha, finite_not_negative);
         reader.optional("warmup_target", options.warmup_target, finite_not_negative);
         reader.optional("warmup_steps", options.warmup_steps, at_least(0));
         reader.finish();
         return CosineDecay(options);
       }},
      {"PiecewiseConstantDecay",
       {},
       [](ConfigReader& reader) {
         PiecewiseConstantDecayOptions options;
         reader.required("boundaries", options.boundaries);
         reader.required("values", options.values, finite_not_negative);
         reader.finish();
         return PiecewiseConstantDecay(options);
       }},
      {"ExponentialDecay",
       {},
       [](ConfigReader& reader) {
         ExponentialDecayOptions options;
         reader.required("initial_learning_rate", options.initial_learning_rate,
                         finite_not_negative);
         reader.required("decay_steps", options.decay_steps, positive);
         reader.required("decay_rate", options.decay_rate, finite_positive);
         reader.optional("staircase", options.staircase);
         reader.finish();
         return ExponentialDecay(options);
       }},
  };
}

// What the options of all optimizers have in common.
template <class Options>
void read_common(ConfigReader& reader, Options& options) {
  if (const auto rate = reader.node("learning_rate")) {
    options.learning_rate = schedule_from_config(*rate);
  }
  reader.optional("weight_decay", options.weight_decay, finite_not_negative);
  reader.optional("clipnorm", options.clipnorm, finite_positive);
  reader.optional("clipvalue", options.clipvalue, finite_positive);
  reader.optional("global_clipnorm", options.global_clipnorm, finite_positive);
}

template <class Options>
Options read_adam(ConfigReader& reader) {
  Options options;
  read_common(reader, options);
  reader.optional("beta_1", options.beta_1, at_least(0).below(1));
  reader.optional("beta_2", options.beta_2, at_least(0).below(1));
  reader.optional("epsilon", options.epsilon, finite_not_negative);
  reader.optional("amsgrad", options.amsgrad);
  reader.finish();
  return options;
}

std::vector<Kind<Optimizer>> optimizers() {
  return {
      {"SGD",
       {"sgd"},
       [](ConfigReader& reader) {
         SGDOptions options;
         read_common(reader, options);
         reader.optional("momentum", options.momentum, unit);
         reader.optional("nesterov", options.nesterov);
         reader.finish();
         return SGD(options);
       }},
      {"Adam", {"adam"}, [](ConfigReader& reader) { return Adam(read_adam<AdamOptions>(reader)); }},
      {"AdamW",
       {"adamw"},
       [](ConfigReader& reader) { return AdamW(read_adam<AdamWOptions>(reader)); }},
      {"RMSprop",
       {"rmsprop"},
       [](ConfigReader& reader) {
         RMSpropOptions options;
         read_common(reader, options);
         reader.optional("rho", options.rho, unit);
         reader.optional("momentum", options.momentum, unit);
         reader.optional("epsilon", options.epsilon, finite_not_negative);
         reader.optional("centered", options.centered);
         reader.finish();
         return RMSprop(options);
       }},
  };
}

// ---- callbacks ---------------------------------------------------------------------------------

const ChoiceTable<MonitorMode> monitor_modes{
    {"auto", MonitorMode::automatic}, {"min", MonitorMode::min}, {"max", MonitorMode::max}};

SharedCallback read_csv_logger(ConfigReader& reader) {
  CSVLoggerOptions options;
  reader.required("file", options.file);
  std::string separator(1, options.separator);
  if (const auto node = reader.node("separator")) {
    separator = node->as<std::string>();
    if (separator.size() != 1) {
      node->fail("expected one character, found {}", node->found());
    }
  }
  options.separator = separator[0];
  reader.optional("append", options.append);
  reader.finish();
  return CSVLogger(options);
}

SharedCallback read_early_stopping(ConfigReader& reader) {
  EarlyStoppingOptions options;
  reader.optional("monitor", options.monitor);
  reader.optional("min_delta", options.min_delta, finite);
  reader.optional("patience", options.patience, at_least(0));
  reader.optional("verbose", options.verbose);
  reader.choice("mode", options.mode, monitor_modes);
  reader.optional("baseline", options.baseline, finite);
  reader.optional("restore_best_weights", options.restore_best_weights);
  reader.optional("start_from_epoch", options.start_from_epoch, at_least(0));
  reader.finish();
  return EarlyStopping(options);
}

SharedCallback read_reduce_lr_on_plateau(ConfigReader& reader) {
  ReduceLROnPlateauOptions options;
  reader.optional("monitor", options.monitor);
  reader.optional("factor", options.factor, at_least(0).below(1));
  reader.optional("patience", options.patience, at_least(0));
  reader.optional("verbose", options.verbose);
  reader.choice("mode", options.mode, monitor_modes);
  reader.optional("min_delta", options.min_delta, finite);
  reader.optional("cooldown", options.cooldown, at_least(0));
  reader.optional("min_lr", options.min_lr, finite_not_negative);
  reader.finish();
  return ReduceLROnPlateau(options);
}

SharedCallback read_learning_rate_scheduler(ConfigReader& reader) {
  LearningRateSchedulerOptions options;
  const Schedule schedule = schedule_from_config(
      reader.required_node("schedule", "a schedule, which is read at the number of the epoch"));
  options.schedule = [schedule](std::int64_t epoch, double) { return schedule.at(epoch); };
  reader.optional("verbose", options.verbose);
  reader.finish();
  return LearningRateScheduler(options);
}

SharedCallback read_terminate_on_nan(ConfigReader& reader) {
  TerminateOnNaNOptions options;
  reader.optional("raise_error", options.raise_error);
  reader.finish();
  return TerminateOnNaN(options);
}

std::vector<Kind<SharedCallback>> callbacks() {
  return {
      {"CSVLogger", {}, read_csv_logger},
      {"EarlyStopping", {}, read_early_stopping},
      {"LearningRateScheduler", {}, read_learning_rate_scheduler},
      {"ReduceLROnPlateau", {}, read_reduce_lr_on_plateau},
      {"TerminateOnNaN", {}, read_terminate_on_nan},
  };
}

template <class Value>
std::vector<Value> read_list(const ConfigNode& node, Value (*read)(const ConfigNode&)) {
  std::vector<Value> values;
  if (!node.is_null()) {
    for (const ConfigNode& element : node.elements()) {
      values.push_back(read(element));
    }
  }
  return values;
}

}  // namespace

SharedLoss loss_from_config(const ConfigNode& node) {
  return make(node, "loss", "a loss", losses());
}

SharedMetric metric_from_config(const ConfigNode& node) {
  const std::vector<Kind<SharedMetric>> kinds = metrics();
  SharedMetric metric = make(node, "metric", "a metric", kinds);
  const ConfigEntry entry = node.single_entry();
  const bool short_name = find(kinds, entry.name)->class_name != entry.name;
  if (short_name && !entry.value.find("name")) {
    return std::make_shared<RenamedMetric>(std::move(metric), entry.name);
  }
  return metric;
}

std::vector<SharedMetric> metrics_from_config(const ConfigNode& node) {
  std::vector<SharedMetric> all = read_list(node, metric_from_config);
  node.located([&] { check_metric_names(all); });
  return all;
}

Schedule schedule_from_config(const ConfigNode& node) {
  const std::vector<Kind<Schedule>> kinds = schedules();
  if (node.is_scalar() && !find(kinds, node.single_entry().name)) {
    return {node.as<double>(finite_not_negative)};
  }
  return make(node, "schedule", "a number or a schedule", kinds);
}

Optimizer optimizer_from_config(const ConfigNode& node) {
  return make(node, "optimizer", "an optimizer", optimizers());
}

SharedCallback callback_from_config(const ConfigNode& node) {
  return make(node, "callback", "a callback", callbacks());
}

std::vector<SharedCallback> callbacks_from_config(const ConfigNode& node) {
  return read_list(node, callback_from_config);
}

}  // namespace meshwork
