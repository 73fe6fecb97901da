// The options of models and of fit, described (runtime/config/options.h). In a configuration those
// of fit stand in two sections, `data` and `fit`.
#pragma once

#include "runtime/config/float_range.h"
#include "runtime/config/options.h"
#include "runtime/data/written_source.h"
#include "runtime/device/device.h"
#include "runtime/device/kernels/precision.h"
#include "runtime/train/from_config.h"
#include "runtime/train/model.h"
#include "runtime/train/roles/role.h"

namespace meshwork {

/// A table in which each name stands for itself.
[[nodiscard]] inline ChoiceTable<std::string> names_themselves(
    const std::vector<std::string>& names) {
  ChoiceTable<std::string> table;
  for (const std::string& name : names) table.emplace_back(name, name);
  return table;
}

template <class Visitor>
void describe(ModelOptions& options, Visitor& option) {
  std::vector<std::string> devices = device_kinds();
  devices.insert(devices.begin(), "auto");
  option.about("the keys of a configuration");
  option("seed", options.seed, "random seed (weights, dropout, shuffling, synthetic data)");
  option.choice("device", options.device, names_themselves(devices),
                "device of each rank; auto: a GPU if the node has one");
  option("collectives", options.collectives,
         "transport between ranks; auto: the fastest that all can use");
  option.choice("precision", options.precision, by_name(all_precisions),
                "precision of products and convolutions");
  option("kernels", options.kernels,
         "choice of kernels: fixed, timed, or a file that keeps timed choices");
  option("watchdog_seconds", options.watchdog_seconds, at_least(0),
         "longest wait of a rank for another; 0: no limit");
  option("check_plan", options.check_plan,
         "check in every step that ranks send what the plan shows");
}

template <class Visitor>
void describe(DistributionOptions& options, Visitor& option) {
  option.choice("unmatched_layouts", options.unmatched_layouts,
                {{"error", UnmatchedLayouts::error}, {"warn", UnmatchedLayouts::warn}},
                "effect of a layout key that matches nothing");
}

template <class Visitor>
void describe_augment(std::vector<SharedMixing>& augment, Visitor& option) {
  option("augment", augment,
         "augmentations that mix the samples of a training batch, and their targets");
}

/// The sections that RunConfig (run_config.h) reads, as they are written.
struct ConfigurationSections {
  std::vector<std::string> extensions;
  Written<"a section"> data, model, fit, pipeline, checkpoint, log;
  Written<"a loss; of several outputs: a map of losses by their names"> loss;
  Written<"of several outputs: a map of numbers by their names"> loss_weights;
  Written<"an optimizer"> optimizer;
  std::vector<SharedMixing> augment;
  WrittenRoles roles;
  Written<"a list of metrics and losses; of several outputs: a map of lists by their names">
      metrics;
};

template <class Visitor>
void describe(ConfigurationSections& sections, Visitor& option) {
  option("extensions", sections.extensions,
         "shared libraries with classes of your own; --extension adds one");
  option("data", sections.data, "samples, batch size and order");
  describe_augment(sections.augment, option);
  option("roles", sections.roles, "number of ranks for each role; default: all train");
  option.required("model", sections.model, "inputs and layers");
  option("loss", sections.loss, "loss that training minimizes; prediction needs none");
  option("loss_weights", sections.loss_weights, "weight of each loss in the sum; default: 1");
  option("optimizer", sections.optimizer, "update rule of the weights; training needs one");
  option("metrics", sections.metrics, "metrics reported beside the loss");
  option("fit", sections.fit, "epochs, validation and callbacks");
  option("pipeline", sections.pipeline,
         "stages of the model, and the order of their micro-batches");
  option("checkpoint", sections.checkpoint, "directory and frequency of checkpoints");
  option("log", sections.log, "log files of training");
}

/// The section `log`: callbacks after those of `fit`.
struct LogFiles {
  std::optional<std::filesystem::path> jsonl, tensorboard;
};

template <class Visitor>
void describe(LogFiles& files, Visitor& option) {
  option.about("log files of training");
  option("jsonl", files.jsonl, "file with one line of JSON per epoch (JSONLogger)");
  option("tensorboard", files.tensorboard,
         "directory of event files for TensorBoard (TensorBoard)");
}

/// The sets of samples in the section `data`.
struct DataSets {
  SharedWrittenSource train, validation, test;
};

template <class Visitor>
void describe(DataSets& sets, Visitor& option) {
  option("train", sets.train, "training data");
  option("validation", sets.validation, "data evaluated after each epoch");
  option("test", sets.test, "data evaluated after training");
}

/// What C++ does by `cached` (runtime/data/views.h) is an option of a configuration's data.
template <class Visitor>
void describe_cache(bool& cache, Visitor& option) {
  option("cache", cache, "keep samples in memory after reading them once");
}

/// What C++ does by `with_one_hot` (runtime/data/views.h) is another.
template <class Visitor>
void describe_one_hot(bool& one_hot, Visitor& option) {
  option("one_hot", one_hot,
         "turn class numbers into one-hot vectors for losses that take a value per class");
}

/// What C++ says to `compile` is an option of a configuration's fit.
template <class Visitor>
void describe_gradient_norm(bool& gradient_norm, Visitor& option) {
  option("gradient_norm", gradient_norm,
         "log the norm of all gradients together, before they are clipped");
}

template <class Visitor>
void describe_callbacks(std::vector<SharedCallback>& callbacks, Visitor& option) {
  option("callbacks", callbacks, "callbacks, called in this order after each batch and epoch");
}

template <class Visitor>
void describe_data_section(FitOptions& options, Visitor& option) {
  option("batch_size", options.batch_size, positive, "samples of a step, of all ranks together");
  option("shuffle", options.shuffle, "shuffle the samples anew in each epoch");
  option("drop_remainder", options.drop_remainder,
         "leave out a last training batch that is smaller than batch_size");
  option("prefetch", options.prefetch, "read batches ahead in a thread if reading is slow");
  option.choice("on_device", options.data_on_device,
                {{"auto", DataOnDevice::automatic}, {"never", DataOnDevice::never}},
                "keep samples in a GPU's memory if they fit");
}

/// The section `pipeline`: C++ says of the stages where it distributes a model, of the schedule to fit.
template <class Visitor>
void describe_pipeline(StagesOptions& stages, PipelineSchedule& schedule, Visitor& option) {
  option.about("stages of a model along an axis, and the order of their micro-batches");
  option("axis", stages.axis, "the axis in `place` whose coordinates are the stages, in order");
  option("chunks", stages.chunks, at_least(1).up_to(most_places),
         "stages per coordinate; of p coordinates, the first runs stages 0, p, 2 p and so on");
  option("schedule", schedule, "order of micro-batches in the stages");
}

template <class Visitor>
void describe_fit_section(FitOptions& options, Visitor& option) {
  option("epochs", options.epochs, positive, "passes over the training data");
  option("validation_split", options.validation_split, at_least(0).below(1),
         "share of the training data, from its end, kept for validation");
  option("class_weight", options.class_weight, float_not_negative,
         "factor of each class in the training loss, by its number or text; others: 1");
  option("microbatches", options.walk.micro_batches, positive,
         "parts of a batch, run one after the other to save memory");
  option("recompute", options.walk.recompute,
         "layers and blocks that recompute their activations in backward: a regular expression of "
         "paths, or `blocks` for every block");
  option("memory", options.memory, positive,
         "memory limit of a rank in a step; the plan splits results further to meet it");
  option("steps_per_epoch", options.steps_per_epoch, positive, "steps of an epoch; none: all data");
  option("validation_batch_size", options.validation_batch_size, positive,
         "samples of a validation step; none: batch_size");
  option("validation_freq", options.validation_freq, positive, "epochs between validations");
  option("profile", options.profile,
         "print the time of a step at the end, by layer, instruction and kernel");
  option.choice("verbose", options.verbose,
                {{"auto", Verbosity::automatic},
                 {"bar", Verbosity::bar},
                 {"lines", Verbosity::lines},
                 {"silent", Verbosity::silent},
                 {"0", Verbosity::silent},  // Keras's numbers
                 {"1", Verbosity::bar},
                 {"2", Verbosity::lines}},
                "progress: a bar, a line an epoch, or nothing; or Keras's 0, 1, 2");
}

}  // namespace meshwork
