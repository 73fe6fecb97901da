// meshwork export: a checkpoint as Keras's weights.
#include <optional>
#include <span>

#include "collectives/error.h"
#include "collectives/path_text.h"
#include "collectives/stop_signals.h"
#include "launch/checkpoint_files.h"
#include "launch/run_files.h"
#include "runtime/checkpoint/keras_weights.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/graph/plan_report.h"
#include "runtime/train/loop/stop_request.h"
#include "runtime/train/state/weights.h"

namespace meshwork {
namespace {

// Array after array: only one of them is in memory at a time. A signal is answered between them, so
// that nothing is left behind.
void copy(const CheckpointReader& reader, const std::vector<KerasName>& names,
          KerasWeightsWriter& writer, const StopRequest& stop) {
  for (const auto& [name, place] : names) {
    if (const int reason = stop.reason(); reason != 0) {
      throw Stopped(reason,
                    fmt::format("stopped by {} before all was written", stop_reason_name(reason)));
    }
    const CheckpointTensor* tensor = reader.find(name);
    if (tensor == nullptr) {
      fail("{}: {} is missing", reader.file(), name);
    }
    writer.write(place, tensor->shape, reader.read(*tensor));
  }
}

}  // namespace

Said export_weights(const CommandLine& line) {
  if (!has_keras_name(line.output)) {
    fail("--keras: {}: Keras reads weights only from names that end with .weights.h5", line.output);
  }
  const CheckpointReader reader(weights_file(line.files.front()));
  const CheckpointState& state = reader.state();
  if (state.keras_places.empty()) {
    fail(
        "{}: does not say where Keras keeps its variables, because an older version wrote it ({}); "
        "resume it for a step, and export the new checkpoint",
        reader.file(), state.program);
  }
  RunFiles files(line.overwrite);
  files.read(reader.file(), "the checkpoint");
  files.write(line.output, "Keras's weights", is_keras_weights);
  const bool exchanged = keras_keeps_state(state.slots);
  const bool optimizer =
      !line.weights_only && !state.optimizer.empty() && state.step > 0 && exchanged;
  StopRequest stop;
  const StopSignals signals(
      [](void* request, int number) { static_cast<StopRequest*>(request)->ask(number); }, &stop);
  KerasWeightsWriter writer(line.output);
  copy(reader, keras_variables(state), writer, stop);
  if (optimizer) {
    writer.write_integer(keras_iteration_place, state.step);
    if (state.constant_rate) {
      const auto rate = static_cast<float>(state.learning_rate);
      writer.write(keras_rate_place, {}, std::span(&rate, 1));
    }
    copy(reader, keras_slots(state, reader.tensors()), writer, stop);
    writer.write_numbers(keras_optimizer(state, reader.tensors()));
  }
  writer.finish();
  return {0,
          fmt::format("{}: {} variables of {}, step {}{}\n", line.output, state.keras_places.size(),
                      reader.file(), state.step,
                      optimizer   ? ", with the state of " + state.optimizer
                      : exchanged ? ", without an optimizer"
                                  : ", without the state of " + state.optimizer +
                                        ", which Keras keeps in another form"),
          ""};
}

}  // namespace meshwork
