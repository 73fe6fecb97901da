// The options of models and of fit, described (runtime/config/options.h). In a configuration those
// of fit stand in two sections, `data` and `fit`.
#pragma once

#include "collectives/transport.h"
#include "runtime/config/options.h"
#include "runtime/device/device.h"
#include "runtime/device/kernels/precision.h"
#include "runtime/train/from_config.h"
#include "runtime/train/model.h"

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
  option("seed", options.seed, "of initial weights, dropout and the order of samples");
  option.choice("device", options.device, names_themselves(devices), "what ranks compute on");
  option.choice("collectives", options.collectives, names_themselves(transport_names()),
                "how bytes travel between ranks");
  option.choice("precision", options.precision, by_name(all_precisions),
                "of products and convolutions");
  option("kernels", options.kernels, "fixed, timed, or a file that keeps what was timed");
  option("watchdog_seconds", options.watchdog_seconds, at_least(0),
         "how long a rank may wait for another; 0: for ever");
  option("check_plan", options.check_plan,
         "hold what is sent against the plan, and calls against those of other ranks");
}

template <class Visitor>
void describe(DistributionOptions& options, Visitor& option) {
  option.choice("unmatched_layouts", options.unmatched_layouts,
                {{"error", UnmatchedLayouts::error}, {"warn", UnmatchedLayouts::warn}},
                "what keys of `layout` are that match nothing");
}

/// What C++ does by `cached` (runtime/data/views.h) is an option of a configuration's data.
template <class Visitor>
void describe_cache(bool& cache, Visitor& option) {
  option("cache", cache, "keep in memory what was read once");
}

template <class Visitor>
void describe_callbacks(std::vector<SharedCallback>& callbacks, Visitor& option) {
  option("callbacks", callbacks, "callbacks, called in their order");
}

template <class Visitor>
void describe_data_section(FitOptions& options, Visitor& option) {
  option("batch_size", options.batch_size, positive, "samples of a step, over all ranks");
  option("shuffle", options.shuffle, "draw the order of samples anew for each epoch");
  option.choice("on_device", options.data_on_device,
                {{"auto", DataOnDevice::automatic}, {"never", DataOnDevice::never}},
                "whether samples stay in a GPU's memory, if they fit there");
}

template <class Visitor>
void describe_fit_section(FitOptions& options, Visitor& option) {
  option("epochs", options.epochs, positive, "passes over the training data");
  option("validation_split", options.validation_split, at_least(0).below(1),
         "part of the training data, its last, that is kept for validation");
  option("steps_per_epoch", options.steps_per_epoch, positive, "fewer than the data has");
  option("validation_batch_size", options.validation_batch_size, positive, "none: as for training");
  option("validation_freq", options.validation_freq, positive,
         "epochs from one validation to the next");
  option("profile", options.profile, "say at the end where the time went");
  option.choice("verbose", options.verbose,
                {{"auto", Verbosity::automatic},
                 {"bar", Verbosity::bar},
                 {"lines", Verbosity::lines},
                 {"silent", Verbosity::silent}},
                "what a run shows of its progress");
}

}  // namespace meshwork
