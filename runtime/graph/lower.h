// From a plan to a program: the schedule of one step, booked instruction by instruction.
//
// A step is: first the sums that others read (step/sums.h), of the whole batch. For each
// micro-batch (walk.h), convert what was fed; every operation forward; in training, every operation
// backward in reverse; in the order of a schedule (schedule.h). A rank books the operations that
// are placed on it, and its part of what crosses between places. Then the buckets of gradients,
// started as they are complete and waited for at the end; penalties, clipping and the update; and
// one reduction of all sums (losses, metrics, penalties). Between operations stand the
// redistributions that the plan implies, each made once for all uses that want the same. Variables
// that are gathered for use are gathered again for backward, so that no rank holds more of them
// than a layer and the next one need.
//
// The same walk, with `plan_collectives` and a builder without a device, is what `meshwork plan`
// shows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/device/kernels/precision.h"
#include "runtime/device/program.h"
#include "runtime/graph/parameters.h"
#include "runtime/graph/plan.h"
#include "runtime/graph/schedule.h"
#include "runtime/graph/sequences.h"
#include "runtime/graph/walk.h"
#include "runtime/mesh/mesh_collectives.h"

namespace meshwork {

enum class Mode : std::uint8_t { train, evaluate, predict };
[[nodiscard]] std::string_view name_of(Mode mode);

enum class Clipping : std::uint8_t { none, value, norm, global_norm };
/// Whether whole gradients have to be there before anything is updated.
[[nodiscard]] constexpr bool needs_norms(Clipping clipping) {
  return clipping == Clipping::norm || clipping == Clipping::global_norm;
}

/// What one kernel updates.
struct UpdatedBlock {
  std::int64_t count = 0;  // elements
  bool scaled = false;     // a factor for the gradients is an operand
  bool narrows = false;    // new values are stored in bfloat16 too
  bool decays = true;      // the weight decay, if there is one, is for it
};

/// How matrices are updated apart from other variables: by steps along their gradients' running
/// sums, in the first slot, made orthogonal (step/orthogonal_step.h).
struct MatrixSteps {
  std::function<bool(const Variable& variable)> takes;  // of two dimensions
  float momentum = 0;
  bool nesterov = false;
  std::int64_t iterations = 0;
  float a = 0, b = 0, c = 0;
  std::optional<float> size;  // of a step, by the root of the matrix's longer side; none: 1
  /// The last kernel: StepScalars, the step, values, [narrowed values].
  std::function<KernelSpec(const UpdatedBlock& block)> kernel;
};

/// Steps whose length follows from norms of whole variables.
struct ScaledSteps {
  /// Of a variable of `count` elements: the kernel that makes the factor of its step, of the
  /// squared norms (float64) of the variable and of the step. Operands: both, the factor.
  std::function<KernelSpec(std::int64_t count)> factor;
  /// The last kernel: StepScalars, [factor], steps, values, [narrowed values].
  std::function<KernelSpec(const UpdatedBlock& block)> kernel;
};

/// A slot that is factored (Shazeer and Stern, arXiv:1804.04235): of a variable of two dimensions
/// or more, each matrix of the last two becomes the outer product of the means of its rows and of
/// its columns, over the mean of all. The means are those of the whole variable.
struct FactoredSlot {
  std::size_t slot = 0;
  /// Follows for a block of `count` elements. Operands: slot, gradients.
  std::function<KernelSpec(std::int64_t count)> kernel;
};

/// How parameters are updated, as the optimizer states it.
struct UpdateRule {
  Clipping clipping = Clipping::none;
  float clip = 0;
  bool reports_norm = false;  // of all gradients together, before they are clipped
  std::vector<Slot> slots;
  /// The fused kernel for a block. Its operands are StepScalars, [factor], gradients, values,
  /// slots, [narrowed values].
  std::function<KernelSpec(const UpdatedBlock& block)> kernel;
  /// Which variables the weight decay is for. Null: all.
  std::function<bool(const Variable& variable)> decays = {};
  /// What the kernel, or the last one here, leaves in the place of gradients.
  std::optional<FactoredSlot> factored_slot = {};
  std::optional<ScaledSteps> scaled_steps = {};
  /// Where a running mean of each parameter is kept: in the last slot, which `kernel` does not
  /// take. This kernel, of the same operands with that slot alone, comes after all else. Else null.
  std::function<KernelSpec(const UpdatedBlock& block)> average = {};
  std::optional<MatrixSteps> matrix_steps = {};

  /// Whether each rank has to hold its blocks of the gradients whole: norms are computed of them,
  /// or matrices.
  [[nodiscard]] bool takes_norms() const {
    return reports_norm || needs_norms(clipping) || scaled_steps || factored_slot || matrix_steps;
  }
};

struct LoweringRequest {
  const Plan* plan = nullptr;
  Mode mode = Mode::train;
  std::int64_t rows = 0;  // of the global batch
  StepWalk walk;          // of Mode::train; others are one micro-batch, and recompute nothing
  std::uint64_t seed = 0;
  Precision precision = Precision::float32;  // of all products, whichever operation books them
  std::map<TensorId, ElementType> fed;       // types in which inputs and targets are fed
  DeviceTraits device;                       // of what runs the step
  std::optional<Piece> piece = {};           // of Mode::predict: none is of whole sequences
  /// Where so many bytes lie that steps on pieces keep, by their name; null only without a device.
  std::function<void*(const std::string& name, std::int64_t bytes)> kept = {};
  const UpdateRule* update = nullptr;  // for Mode::train
  const ParameterForm* form = nullptr;
  const Parameters* parameters = nullptr;  // null only without a device
  void* step_scalars = nullptr;            // StepScalars on the device
  std::vector<void*> feeds;                // where `fed_parts` are written before a step
  /// Or: inputs and targets are rows of tables that lie on the device, and a step gathers its own.
  bool gathers = false;
  /// Where is written before a step where the tables begin, one for each tensor in the order of
  /// `fed_tensors`, then, of each row of the global batch, which row of the tables it is (int64).
  void* gathered_rows = nullptr;

  /// The type in which a tensor is fed: its own, unless `fed` says otherwise.
  [[nodiscard]] ElementType fed_type(TensorId id) const;
  /// The rows of each micro-batch.
  [[nodiscard]] std::vector<Range> micro_batches() const;
  /// What is done with them in order, by coordinate of the pipeline.
  [[nodiscard]] Actions actions() const;
};

/// A part of an input or target that a rank is fed.
struct FedPart {
  TensorId tensor = -1;
  Block block;  // in the whole batch
};

/// What the booked program needs and gives.
struct LoweredStep {
  std::vector<TensorId> sum_tensors;  // whose sums stand in `sums`, in this order
  std::int64_t sum_count = 0;         // how many numbers those are
  /// float64: those of sum_tensors; then, where there is one, the penalty; then, where it is
  /// reported, the squared norm of all gradients.
  Buffer sums;
  bool has_penalty = false;
  bool has_gradient_norm = false;
  std::vector<Buffer> outputs;  // Mode::predict: the model's, whole, float32
};

/// What a step is fed: inputs and, but for prediction, targets, ascending.
[[nodiscard]] std::vector<TensorId> fed_tensors(const Graph& graph, Mode mode);
/// What rank `rank` is fed of each, micro-batch by micro-batch.
[[nodiscard]] std::vector<FedPart> fed_parts(const Plan& plan, Mode mode,
                                             const std::vector<Range>& micro_batches,
                                             std::int64_t rank, const Piece* piece = nullptr);

/// Books one step for the rank of `collectives`.
[[nodiscard]] LoweredStep lower(const LoweringRequest& request, ProgramBuilder& builder,
                                MeshCollectives& collectives);

}  // namespace meshwork
