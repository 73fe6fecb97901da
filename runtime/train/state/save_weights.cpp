#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/path_text.h"
#include "runtime/checkpoint/keras_weights.h"
#include "runtime/checkpoint/new_file.h"
#include "runtime/checkpoint/verdict.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/train/model_state.h"
#include "runtime/train/state/keras_places.h"
#include "runtime/train/state/saved_run.h"
#include "runtime/train/state/weights.h"

namespace meshwork {
namespace {

// Rank 0 writes array after array, as it gathers it: it has no more than one array whole.
void save_keras(Model::State& model, const std::filesystem::path& file, bool with_optimizer) {
  Failures failures;
  std::optional<KerasWeightsWriter> writer;
  const auto on_root = [&](const auto& action) {
    if (model.is_root() && !failures.any()) {
      failures.attempt(action);
    }
  };
  CollectiveTrace* trace = &model.watchdog->trace();
  on_root([&] { writer.emplace(file); });
  agree_that_all_is_well(model.mesh().all(), failures,
                         {trace, "agreement that " + file.string() + " can be written"});
  const std::vector<KerasPlace> places = keras_places(*model.graph, model.keras_model);
  const auto save = [&](const std::vector<KerasEntry>& entries) {
    for (const KerasEntry& entry : entries) {
      const std::vector<float> values = model.engine->gather(entry.variable, entry.slot, 0);
      const Shape& shape = model.graph->variables[entry.variable].options.shape;
      on_root([&] { writer->write(entry.place, shape, values); });
    }
  };
  save(keras_weight_entries(*model.graph, places));
  if (with_optimizer && keras_keeps_state(model.compiled->optimizer.slot_names())) {
    const KerasOptimizer keras =
        keras_optimizer(*model.graph, model.compiled->optimizer, places, model.iteration);
    on_root([&] {
      writer->write_integer(keras_iteration_place, model.iteration);
      if (keras.constant_rate) {
        const auto rate =
            static_cast<float>(model.compiled->optimizer.learning_rate(model.iteration));
        writer->write(keras_rate_place, {}, std::span(&rate, 1));
      }
    });
    save(keras_slot_entries(*model.graph, keras));
    on_root([&] { writer->write_numbers(keras); });
  }
  on_root([&] { writer->finish(); });
  agree_that_all_is_well(model.mesh().all(), failures,
                         {trace, "agreement that " + file.string() + " is written"});
}

void save_checkpoint(Model::State& model, const std::filesystem::path& file,
                     const SaveWeightsOptions& options, bool with_optimizer) {
  CheckpointState state = state_of(model, with_optimizer);
  state.configuration = options.configuration;
  SavedRun saved(model);
  saved.capture(std::move(state), {});
  std::vector<TensorPart> parts;
  for (const TensorPart& part : saved.parts()) {
    if (with_optimizer || part.tensor.kind == TensorKind::variable) {
      parts.push_back(part);
    }
  }
  CollectiveTrace* trace = &model.watchdog->trace();
  std::optional<OutputLock> lock;
  together(model.mesh().all(),
           [&] {
             if (model.is_root()) lock.emplace(file);
           },
           {trace, "agreement that no other run writes " + file.string()});
  // Between steps nobody else uses the communicator of all.
  (void)write_checkpoint(model.mesh().all(), file, saved.state(), parts,
                         {.writer = options.writer, .verify = options.verify, .trace = trace});
}

}  // namespace

void Model::save_weights(const std::filesystem::path& file, SaveWeightsOptions options) {
  const auto call = state_->begin_call("save_weights", [&] {
    return Settings{setting("file", file.string()), setting("optimizer", options.optimizer),
                    setting("configuration", options.configuration),
                    setting("parallel", options.writer == CheckpointWriter::parallel),
                    setting("verify", options.verify)};
  });
  if (!file.string().ends_with(".h5")) {
    fail(
        "{}: weights are saved under names that end with .weights.h5, as Keras has them, or with "
        ".h5, as a checkpoint",
        file);
  }
  state_->require_engine();
  const bool optimizer = options.optimizer && state_->compiled && state_->has_slots;
  if (has_keras_name(file)) {
    // One that has updated nothing has no slots in Keras.
    save_keras(*state_, file, optimizer && state_->iteration > 0);
  } else {
    save_checkpoint(*state_, file, options, optimizer);
  }
}

}  // namespace meshwork
