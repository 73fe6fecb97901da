// SavedRun: a copy in memory of everything that a checkpoint of a run holds, so that it can be
// written while the run goes on.
//
// Of each tensor a rank copies only the region that it is going to write: the memory that this
// takes, and the time that training waits for it, are those of the whole state divided by the
// ranks, as far as they hold the same. The memory is taken once and used again. Weights that
// callbacks keep do not change, and are shared instead.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/checkpoint/writer.h"
#include "runtime/train/callbacks/callback.h"
#include "runtime/train/model_state.h"

namespace meshwork {

/// Where a callback's subject stands among what it remembers, in a checkpoint.
inline constexpr const char* subject_key = "(subject)";

/// A tensor of a model, as a checkpoint has it: a variable, or a slot of it.
struct ModelTensor {
  CheckpointTensor tensor;  // its sum is not known
  const ParameterSpan* span;
  int slot = its_value;

  /// The variable's value as callback number `callback` of the checkpoint keeps it.
  [[nodiscard]] CheckpointTensor kept_by(std::size_t callback) const;
};

/// All of them, in the order of the writer: variables and the slots of each.
[[nodiscard]] std::vector<ModelTensor> tensors_of(const Model::State& model);

/// What a checkpoint says of a model whatever run it is in: the updates so far, the seed, the
/// places in Keras's files, what it runs on, and the optimizer if the model is compiled and
/// `with_optimizer`.
[[nodiscard]] CheckpointState state_of(const Model::State& model, bool with_optimizer);

class SavedRun {
 public:
  /// Takes the memory, and touches it. `model` has its parameters, and outlives this.
  explicit SavedRun(Model::State& model);

  /// Copies what there is now. Every rank calls it; no communication.
  void capture(CheckpointState state, const std::vector<SharedCallback>& callbacks);

  /// What was captured last.
  [[nodiscard]] const CheckpointState& state() const { return state_; }
  [[nodiscard]] std::span<const TensorPart> parts() const { return parts_; }
  /// What a capture copies, on this rank.
  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>(memory_.size()) * float32_bytes;
  }

 private:
  /// Adds the part of `tensor`, which lies as `span`, that this rank writes; whether it has one.
  bool add_part(CheckpointTensor tensor, const ParameterSpan& span);

  struct Copy {
    std::size_t part;
    const float* source;  // on the device
    std::int64_t count;
    std::int64_t offset;  // in memory_
  };

  Model::State* model_;
  std::vector<ModelTensor> tensors_;
  CheckpointState state_;
  std::vector<TensorPart> parts_;
  std::size_t own_parts_ = 0;  // of the model; those of callbacks come behind
  std::vector<Copy> copies_;
  std::vector<float> memory_;
  std::vector<std::shared_ptr<const WeightsSnapshot>> kept_;
};

}  // namespace meshwork
