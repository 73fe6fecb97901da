#include "runtime/train/state/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/joined_text.h"
#include "collectives/path_text.h"
#include "collectives/rank_names.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/keras_weights.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/checkpoint/verdict.h"
#include "runtime/train/model_state.h"
#include "runtime/train/state/keras_places.h"
#include "runtime/train/state/read_blocks.h"
#include "runtime/train/state/saved_run.h"

namespace meshwork {
namespace {

void refuse(const std::filesystem::path& file, const std::vector<std::string>& different) {
  if (different.empty()) {
    return;
  }
  std::string text = fmt::format("{}: these are not the weights of this model:", file);
  for (const std::string& line : different) {
    text += "\n  " + line;
  }
  throw Error(text);
}

// Where ranks wait for each other over a file, for the watchdog.
TracePoint waiting(const Model::State& model, const std::string& what,
                   const std::filesystem::path& file) {
  return {&model.watchdog->trace(), fmt::format("{} {}", what, file)};
}

// A reader on every rank. Throws on all if one of them has none.
template <class Reader>
std::unique_ptr<Reader> opened(const Model::State& model, const std::filesystem::path& file) {
  std::unique_ptr<Reader> reader;
  Failures failures;
  failures.attempt([&] { reader = std::make_unique<Reader>(file); });
  agree_that_all_is_well(model.mesh().all(), failures,
                         waiting(model, "agreement that all can read", file));
  return reader;
}

// A rate that the file has, but for the rounding to float32 in which Keras keeps it.
void take_rate(Optimizer& optimizer, double rate, std::int64_t iteration) {
  if (optimizer.schedule().is_constant() &&
      static_cast<float>(rate) != static_cast<float>(optimizer.learning_rate(iteration))) {
    optimizer.set_learning_rate(rate);
  }
}

// ---- from a checkpoint --------------------------------------------------------------------------

LoadedWeights load_checkpoint(Model::State& model, const std::filesystem::path& file,
                              const LoadWeightsOptions& options) {
  const auto reader = opened<CheckpointReader>(model, file);
  const CheckpointState& then = reader->state();
  // A checkpoint of weights alone names no optimizer.
  const bool optimizer = options.optimizer && !then.optimizer.empty();
  refuse(file, tensor_differences(model, *reader, "file", optimizer, false));
  const std::string damage = read_blocks(model, *reader, model_targets(model, *reader, optimizer));
  if (!damage.empty()) {
    throw Error(damage);
  }
  if (optimizer) {
    model.iteration = then.step;
    if (then.constant_rate) {
      take_rate(model.compiled->optimizer, then.learning_rate, then.step);
    }
  }
  return {.file = file,
          .keras = false,
          .optimizer = optimizer,
          .updates = then.step,
          .variables = std::ssize(model.graph->variables),
          .has_optimizer = !then.optimizer.empty(),
          .optimizer_class = then.optimizer};
}

// ---- from Keras ---------------------------------------------------------------------------------

bool is_of_optimizer(const std::string& place) {
  return place.starts_with("optimizer/");
}

std::set<std::string> weight_places(const KerasWeightsReader& reader) {
  std::set<std::string> places;
  for (const KerasArray& array : reader.arrays()) {
    if (!is_of_optimizer(array.place)) {
      places.insert(array.place);
    }
  }
  return places;
}

// The model's places in the file. The same layers can have been written in several ways (as a
// functional model, as a class), which the file shows; if it shows none of them, what differs is
// said of the model as it is.
std::vector<KerasPlace> places_in(const Model::State& model, const KerasWeightsReader& reader) {
  const std::set<std::string> there = weight_places(reader);
  for (const KerasModel kind :
       {model.keras_model, KerasModel::functional, KerasModel::subclass, KerasModel::members}) {
    std::vector<KerasPlace> places = keras_places(*model.graph, kind);
    if (places.size() == there.size() &&
        std::all_of(places.begin(), places.end(),
                    [&](const KerasPlace& place) { return there.count(place.place) > 0; })) {
      return places;
    }
  }
  return keras_places(*model.graph, model.keras_model);
}

std::vector<std::string> differences(const Graph& graph, const std::vector<KerasEntry>& weights,
                                     const KerasWeightsReader& reader) {
  std::vector<std::string> found;
  std::set<std::string> left = weight_places(reader);
  for (const KerasEntry& entry : weights) {
    const Variable& variable = graph.variables[entry.variable];
    const Shape& shape = variable.options.shape;
    const KerasArray* array = reader.find(entry.place);
    if (array == nullptr) {
      found.push_back(fmt::format("the model has {} {}, the file has no {}", variable.path,
                                  to_string(shape), entry.place));
    } else if (array->shape != shape) {
      found.push_back(fmt::format("{} has shape {}, in the file {} has {}", variable.path,
                                  to_string(shape), entry.place, to_string(array->shape)));
    }
    left.erase(entry.place);
  }
  for (const std::string& place : left) {
    found.push_back(fmt::format("the file has {} {}, the model has nothing for it", place,
                                to_string(reader.find(place)->shape)));
  }
  return found;
}

// What keeps the model's optimizer from taking up the file's.
std::vector<std::string> slot_differences(const Model::State& model, const KerasOptimizer& keras,
                                          const std::vector<KerasEntry>& slots,
                                          const KerasWeightsReader& reader) {
  const std::string& name = model.compiled->optimizer.class_name();
  if (!keras_keeps_state(keras.slots)) {
    return {fmt::format(
        "Keras keeps the state of {} in another form; the weights alone can be taken without it",
        name)};
  }
  const auto count = static_cast<std::size_t>(
      std::count_if(reader.arrays().begin(), reader.arrays().end(),
                    [](const KerasArray& array) { return is_of_optimizer(array.place); }));
  if (count != keras_optimizer_arrays(keras)) {
    return {fmt::format(
        "{} has {} arrays of its own ({}{} for each of {} trained variables{}), the file has {}; "
        "the "
        "weights alone can be taken without it",
        name, keras_optimizer_arrays(keras),
        keras.constant_rate ? "iteration, learning rate, " : "iteration, ",
        keras.slots.empty() ? "no slots" : joined_text(keras.slots, ", "), keras.variables.size(),
        keras.numbers.empty() ? "" : ", a number", count)};
  }
  std::vector<std::string> found;
  for (const KerasEntry& entry : slots) {
    const Variable& variable = model.graph->variables[entry.variable];
    const KerasArray* array = reader.find(entry.place);
    if (array == nullptr || array->shape != variable.options.shape) {
      found.push_back(fmt::format("{} ({}) has shape {}, in the file {} {}", variable.path,
                                  keras.slots[entry.slot], to_string(variable.options.shape),
                                  entry.place,
                                  array ? "has " + to_string(array->shape) : "is missing"));
    }
  }
  return found;
}

// The number of updates, which Keras keeps as any number.
std::int64_t updates_in(const KerasWeightsReader& reader) {
  constexpr double most = 9007199254740992.0;  // 2^53: up to here every integer is a double
  const double number = reader.read_number(keras_iteration_place);
  if (!(number >= 0 && number <= most) || number != std::floor(number)) {
    fail("{}: {} is {}, which is no number of updates", reader.file(), keras_iteration_place,
         number);
  }
  return static_cast<std::int64_t>(number);
}

void check_not_negative(std::span<const float> values, const KerasWeightsReader& reader,
                        std::string_view place) {
  for (const float value : values) {
    if (value < 0) {
      fail("{}: {} has the element {}; an average of squares or magnitudes is not negative",
           reader.file(), place, value);
    }
  }
}

LoadedWeights load_keras(Model::State& model, const std::filesystem::path& file,
                         const LoadWeightsOptions& options) {
  const auto reader = opened<KerasWeightsReader>(model, file);
  const std::vector<KerasPlace> places = places_in(model, *reader);
  std::vector<KerasEntry> entries = keras_weight_entries(*model.graph, places);
  std::vector<std::string> different = differences(*model.graph, entries, *reader);
  // One that has updated nothing need not have slots.
  const bool has_iteration = reader->find(keras_iteration_place) != nullptr;
  std::int64_t updates = 0;
  std::optional<double> rate;
  Failures failures;
  failures.attempt([&] {
    updates = has_iteration ? updates_in(*reader) : 0;
    if (!options.optimizer || !has_iteration) {
      return;
    }
    const KerasOptimizer keras =
        keras_optimizer(*model.graph, model.compiled->optimizer, places, model.iteration);
    const std::vector<KerasEntry> slots = keras_slot_entries(*model.graph, keras);
    entries.insert(entries.end(), slots.begin(), slots.end());
    if (updates > 0) {
      for (std::string& line : slot_differences(model, keras, slots, *reader)) {
        different.push_back(std::move(line));
      }
    }
    if (keras.constant_rate && different.empty() && reader->find(keras_rate_place) != nullptr) {
      rate = reader->read_number(keras_rate_place);
    }
  });
  agree_that_all_is_well(model.mesh().all(), failures,
                         waiting(model, "agreement on the optimizer in", file));
  refuse(file, different);
  const bool optimizer = options.optimizer && has_iteration;

  Parameters& parameters = model.engine->parameters();
  std::vector<float> block;
  for (const KerasEntry& entry : entries) {
    failures.attempt([&] {
      const ParameterSpan& span = parameters.form().spans[entry.variable];
      const Slot slot = entry.slot == its_value ? Slot{} : parameters.slots()[entry.slot];
      block.assign(static_cast<std::size_t>(span.count), slot.initial);
      if (entry.slot == its_value || updates > 0) {
        reader->read(*reader->find(entry.place), span.block, block);
      }
      if (slot.not_negative) check_not_negative(block, *reader, entry.place);
      parameters.write(entry.variable, block, entry.slot);
    });
  }
  agree_that_all_is_well(model.mesh().all(), failures,
                         waiting(model, "agreement that all have read their blocks of", file));
  if (optimizer) {
    model.iteration = updates;
    if (rate) {
      try {
        take_rate(model.compiled->optimizer, *rate, model.iteration);
      } catch (const Error& error) {
        fail("{}: {}: {}", file, keras_rate_place, error.what());
      }
    }
  }
  return {.file = file,
          .keras = true,
          .optimizer = optimizer,
          .updates = updates,
          .variables = std::ssize(model.graph->variables),
          .has_optimizer = has_iteration,
          .optimizer_class = {}};
}

}  // namespace

std::string describe(const LoadedWeights& loaded) {
  const auto counted = [](std::int64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  const std::string taken =
      fmt::format("{} of {}", counted(loaded.variables, "variable"), loaded.file);
  const std::string steps = counted(loaded.updates, "step");
  if (loaded.has_optimizer) {
    return fmt::format("{}; {} its optimizer's state ({}{})", taken,
                       loaded.optimizer ? "and" : "not",
                       loaded.optimizer_class.empty() ? "" : loaded.optimizer_class + ", ", steps);
  }
  return loaded.updates > 0 ? fmt::format("{}, after {}", taken, steps) : taken;
}

std::filesystem::path weights_file(const std::filesystem::path& path) {
  std::error_code problem;
  if (!std::filesystem::is_directory(path, problem)) {
    return path;
  }
  const CheckpointListing listing = list_checkpoints(path, "");
  if (listing.checkpoints.empty()) {
    fail("{}: there are no checkpoints in this directory", path);
  }
  const FoundCheckpoint& newest = listing.checkpoints.front();
  if (!newest.readable()) {
    const auto older = std::find_if(listing.checkpoints.begin(), listing.checkpoints.end(),
                                    [](const FoundCheckpoint& found) { return found.readable(); });
    fail("the newest checkpoint in {} {}: {}{}", path,
         newest.damage.empty() ? "cannot be read" : "is damaged", newest.damage + newest.refusal,
         older == listing.checkpoints.end()
             ? std::string("; none of the others can be read either")
             : fmt::format("; the newest that can be read is {}", older->file));
  }
  return newest.file;
}

LoadedWeights Model::load_weights(const std::filesystem::path& path, LoadWeightsOptions options) {
  const auto call = state_->begin_call("load_weights", [&] {
    return Settings{setting("path", path.string()), setting("optimizer", options.optimizer)};
  });
  if (options.optimizer && !state_->compiled) {
    fail("load_weights: there is no optimizer to take up a state: call compile first");
  }
  const Communicator& all = state_->mesh().all();
  // Rank 0 looks; directories of network file systems differ from node to node.
  std::string found;
  bool checkpoint = false;
  const TracePoint looking =
      waiting(*state_, fmt::format("waiting for rank {}, which looks at", name_of_rank(0)), path);
  together(
      all,
      [&] {
        if (all.rank() == 0) {
          found = weights_file(path).string();
          checkpoint = is_checkpoint_file(found);
        }
      },
      looking);
  {
    const TracedCollective inside(looking);
    found = broadcast_text(all, found);
    checkpoint = broadcast_text(all, checkpoint ? "checkpoint" : "Keras") == "checkpoint";
  }
  const bool used = state_->engine != nullptr;
  state_->require_engine();
  if (used && options.optimizer && !state_->has_slots) {
    fail(
        "load_weights: the model has been compiled anew since it was used; take up the optimizer's "
        "state before evaluating or predicting");
  }
  return checkpoint ? load_checkpoint(*state_, found, options)
                    : load_keras(*state_, found, options);
}

}  // namespace meshwork
