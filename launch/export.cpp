// meshwork export: a checkpoint as Keras's weights.
#include <optional>
#include <span>

#include "collectives/error.h"
#include "launch/checkpoint_files.h"
#include "launch/run_files.h"
#include "runtime/checkpoint/keras_weights.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/graph/plan_report.h"
#include "runtime/train/state/weights.h"

namespace meshwork {
namespace {

// Array after array: only one of them is in memory at a time.
class Export {
 public:
  Export(const CheckpointReader& reader, const std::string& file)
      : reader_(reader), writer_(file) {}

  void write_weights() {
    for (const KerasPlace& place : reader_.state().keras_places) {
      copy("params/" + place.variable, place.place);
    }
  }

  void write_optimizer() {
    const CheckpointState& state = reader_.state();
    const KerasOptimizer optimizer = keras_optimizer(state, reader_.tensors());
    writer_.write_integer(keras_iteration_place, state.step);
    if (optimizer.constant_rate) {
      const auto rate = static_cast<float>(state.learning_rate);
      writer_.write(keras_rate_place, {}, std::span(&rate, 1));
    }
    for (std::size_t v = 0; v < optimizer.variables.size(); ++v) {
      for (std::size_t s = 0; s < optimizer.slots.size(); ++s) {
        copy(fmt::format("slots/{}/{}", optimizer.variables[v], optimizer.slots[s]),
             keras_slot_place(optimizer, s, v));
      }
    }
  }

  void finish() { writer_.finish(); }

 private:
  void copy(const std::string& name, const std::string& place) {
    const CheckpointTensor* tensor = reader_.find(name);
    if (tensor == nullptr) {
      fail("{}: {} is missing", reader_.file().string(), name);
    }
    writer_.write(place, tensor->shape, reader_.read(*tensor));
  }

  const CheckpointReader& reader_;
  KerasWeightsWriter writer_;
};

}  // namespace

Said export_weights(const CommandLine& line) {
  if (!has_keras_name(line.output)) {
    fail("--keras: {}: Keras reads weights only from names that end with .weights.h5", line.output);
  }
  const CheckpointReader reader(weights_file(line.files.front()));
  const CheckpointState& state = reader.state();
  if (state.keras_places.empty()) {
    fail(
        "{}: does not say where Keras has its variables: {}, which wrote it, did not write that "
        "yet; go on from it for a step, and export what is written then",
        reader.file().string(), state.program);
  }
  RunFiles files(line.overwrite);
  files.read(reader.file(), "the checkpoint");
  files.write(line.output, "Keras's weights", is_keras_weights);
  const bool optimizer = !line.weights_only && !state.optimizer.empty() && state.step > 0;
  Export exported(reader, line.output);
  exported.write_weights();
  if (optimizer) {
    exported.write_optimizer();
  }
  exported.finish();
  return {0,
          fmt::format("{}: {} variables of {}, step {}{}\n", line.output, state.keras_places.size(),
                      reader.file().string(), state.step,
                      optimizer ? ", with the state of " + state.optimizer
                                : std::string(", without an optimizer")),
          ""};
}

}  // namespace meshwork
