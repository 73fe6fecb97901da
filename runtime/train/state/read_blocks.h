// A model's tensors in a checkpoint: what keeps the model from taking them, and the reading of
// them: every rank its own blocks, whatever mesh wrote them, and nothing believed before the sums
// of what all ranks have read are those in the file.
#pragma once

#include <string>
#include <vector>

#include "runtime/checkpoint/contents.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/graph/parameters.h"
#include "runtime/train/model_state.h"

namespace meshwork {

/// A tensor to be read: where this rank's block of it goes.
struct BlockTarget {
  const CheckpointTensor* tensor;
  const ParameterSpan* span;  // of its variable
  int slot = its_value;
  float* kept = nullptr;  // in the host's memory, instead of the model's parameters
};

/// What keeps `model` from taking the tensors of `reader`, which is called `file`: names and shapes
/// of variables and, with `optimizer`, its class and slots; and, to train on, which are trained.
[[nodiscard]] std::vector<std::string> tensor_differences(const Model::State& model,
                                                          const CheckpointReader& reader,
                                                          const char* file, bool optimizer,
                                                          bool trained);

/// The values of all variables and, with `optimizer`, their slots. There are no differences.
[[nodiscard]] std::vector<BlockTarget> model_targets(const Model::State& model,
                                                     const CheckpointReader& reader,
                                                     bool optimizer);

/// Reads all targets and compares their sums. Collective; the ranks have the same targets. Gives ""
/// or what is damaged, the same on all ranks; then the destinations hold anything.
[[nodiscard]] std::string read_blocks(Model::State& model, const CheckpointReader& reader,
                                      const std::vector<BlockTarget>& targets);

}  // namespace meshwork
