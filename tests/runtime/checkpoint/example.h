// A checkpoint to write: a state with everything in it, and tensors of many shapes and layouts
// whose values follow from name and index.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "runtime/checkpoint/regions.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/mesh/device_mesh.h"
#include "tests/support/tensor.h"

namespace meshwork::test {

inline CheckpointState example_state() {
  CheckpointState state;
  state.step = 1200;
  state.epoch = 3;
  state.batch = 17;
  state.samples = 1088;
  state.running = {{"loss", "accuracy"}, {0.1 + 0.2, 77}, 1e-300, 1088};
  state.seed = 0xFFFFFFFFFFFFFFF0U;
  state.data = "idx images.gz (60000, 28, 28)";
  state.categories = {{"city", "Oslo"}, {"city", ""}, {"\xC3\xA9t\xC3\xA9", "x, y"}};
  state.data_rows = 60000;
  state.batch_size = 64;
  state.steps_per_epoch = 938;
  state.shuffle = true;
  state.epochs = 10;
  state.optimizer = "Adam";
  state.slots = {"momentum", "velocity"};
  state.keras_numbers = {0.25};
  state.schedule = "0.001";
  state.learning_rate = 1.0 / 3;
  state.configuration = "seed: 7\nname: \xC3\xA9t\xC3\xA9\n";
  state.keras_places = {{"d1/kernel", "layers/dense/vars/0"}, {"d1/bias", "layers/dense/vars/1"}};
  state.mesh = "data=2 x model=2";
  state.device = "cpu: some processor";
  state.precision = "bfloat16";
  state.collectives = "mpi";
  state.kernels = {
      "some processor, 1 thread",
      {{"matmul 64x256x784 bias relu", "gemm"}, {"matmul tn 784x256x64", "primitive"}}};
  state.history_epochs = {0, 1, 2};
  state.history = {{"loss", {0.5, 0.25, std::numeric_limits<double>::infinity()}},
                   {"val/loss", {0.125}}};
  state.logs = {{"loss", 0.25}, {"val_loss", -0.0}};
  state.callbacks = {
      {"EarlyStopping", {{"wait", 2.0}, {"best", 1e-17}}, true},
      {"CSVLogger", {{"file", std::string("log.csv")}, {"empty", std::string()}}, false}};
  return state;
}

struct ExampleTensor {
  CheckpointTensor tensor;
  Layout layout;
};

// On a mesh with two axes.
inline std::vector<ExampleTensor> example_tensors() {
  std::vector<ExampleTensor> tensors;
  const auto add = [&](TensorKind kind, const char* path, const char* slot, Shape shape,
                       std::vector<std::vector<Axis>> dimensions, int callback = -1) {
    tensors.push_back(
        {{kind, path, slot, callback, true, std::move(shape), "", 0}, {std::move(dimensions), {}}});
  };
  for (const auto& [kind, slot, callback] :
       {std::tuple{TensorKind::variable, "", -1}, std::tuple{TensorKind::slot, "momentum", -1},
        std::tuple{TensorKind::kept, "", 0}}) {
    add(kind, "d1/kernel", slot, {131, 257}, {{}, {1}}, callback);
    add(kind, "d1/bias", slot, {7}, {{1}}, callback);
    add(kind, "block/d2/kernel", slot, {257, 130}, {{0, 1}, {}}, callback);
    add(kind, "block/d2/bias", slot, {3}, {{}}, callback);
    add(kind, "conv/kernel", slot, {3, 2, 5, 4}, {{}, {0}, {}, {1}}, callback);
    add(kind, "scale", slot, {}, {}, callback);
    add(kind, "nothing", slot, {0, 4}, {{0}, {}}, callback);
  }
  return tensors;
}

/// The value of an element.
inline float example_value(const std::string& name, std::int64_t index) {
  float value = static_cast<float>(index) * 0.5f;
  for (const char c : name) value += static_cast<float>(c) * 1e-3f;
  return value;
}

/// This rank's parts of the example, with their memory.
class ExampleParts {
 public:
  ExampleParts(const MeshShape& mesh, std::int64_t rank, const CheckpointState& state) {
    std::int64_t turn = 0;
    for (const ExampleTensor& example : example_tensors()) {
      TensorPart part{example.tensor,
                      region_of(example.layout, example.tensor.shape, mesh, rank, turn++), nullptr};
      part.tensor.layout = meshwork::to_string(example.layout, mesh);
      const std::string name = name_of(part.tensor, state.callbacks);
      std::vector<float> values;
      if (!is_empty(part.region)) {
        for_each_in_block(part.tensor.shape, part.region,
                          [&](std::int64_t i) { values.push_back(example_value(name, i)); });
      }
      memory_.push_back(std::move(values));
      part.values = memory_.back().data();
      parts.push_back(part);
    }
  }
  std::vector<TensorPart> parts;

 private:
  std::vector<std::vector<float>> memory_;
};

}  // namespace meshwork::test
