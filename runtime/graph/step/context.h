// StepContext: what everything that books one step has in common.
//
// The walk of lower.h is made of parts, each with its own state: `StepValues` (where tensors
// stand), `StepGradients` (what backward collects), `StepSums` (losses, metrics, penalties),
// `update_parameters`. They share the request, the builder, the collectives, and where the flat
// memory of the parameters is booked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/graph/lower.h"
#include "runtime/mesh/crossing.h"
#include "runtime/mesh/mesh_collectives.h"

namespace meshwork {

class StepContext {
 public:
  StepContext(const LoweringRequest& request, ProgramBuilder& builder,
              MeshCollectives& collectives);

  const LoweringRequest& request;
  const Plan& plan;
  const Graph& graph;
  const ParameterForm& form;
  ProgramBuilder& builder;
  MeshCollectives& collectives;
  std::string phase = "forward";  // under which collectives are recorded

  // The trained variables that a pass over a micro-batch gathers, in order. Forward and backward of a
  // stage are a pass each.
  struct Gather {
    TensorId variable;
    Layout layout;
    std::string phase;
    bool operator==(const Gather&) const = default;
  };
  using GatherOrder = std::vector<std::vector<Gather>>;  // by pass
  std::vector<GatherOrder> gather_order;  // by micro-batch; none: nothing is gathered ahead
  bool notes_gathers = false;             // they are not known yet

  // What is booked: a micro-batch, the numbers of its rows in the batch, and the shapes of all
  // tensors, global, with so many rows.
  std::vector<Range> micro_batches;
  std::size_t micro_batch = 0;
  std::vector<Shape> shapes;  // by tensor
  // Of the stages of a pipeline, of which this rank may have several: that at hand; the first, whose
  // number is the rank's coordinate; and those in which the rank runs an operation, and takes what
  // others give to a tensor's gradient, or -1.
  std::int64_t stage = 0, first_stage = 0;
  std::vector<std::int64_t> stage_of_operation, stage_of_gradient;
  /// Instructions from here on are those of micro-batch `index` in stage `in_stage`.
  void go_to(std::size_t index, std::int64_t in_stage = 0);
  [[nodiscard]] const Range& rows() const { return micro_batches[micro_batch]; }
  /// The share of the batch's rows that are at hand.
  [[nodiscard]] double share_of_batch() const {
    return request.rows == 0
               ? 1
               : static_cast<double>(rows().length()) / static_cast<double>(request.rows);
  }

  // The flat memory of the parameters.
  struct Group {
    Buffer values;
    Buffer narrow;              // if there is a narrow copy
    std::vector<Buffer> slots;  // of training
  };
  std::vector<Group> groups;
  Buffer fixed, gradients, scalars;

  [[nodiscard]] bool training() const { return request.mode == Mode::train; }
  /// The sum over a whole batch: a loss or a metric.
  [[nodiscard]] bool is_sum(TensorId id) const { return shapes[id].empty(); }

  /// How messages and tables name a tensor.
  [[nodiscard]] std::string name_of(TensorId id) const;
  /// This rank's block of a tensor that lies as `layout` says, and how many elements that is.
  [[nodiscard]] Block block(TensorId id, const Layout& layout) const;
  [[nodiscard]] std::int64_t count(TensorId id, const Layout& layout) const;

  /// The index of the variable that a tensor is, or -1.
  [[nodiscard]] int variable_of(TensorId id) const { return graph.tensors[id].variable; }
  /// Whether this rank runs what gives an output that lies as `natural`, or holds such a tensor.
  [[nodiscard]] bool holds(const Layout& layout) const {
    return includes(layout.places, plan.mesh, collectives.rank());
  }
  /// Where this rank's block of a variable, or of its gradient, stands.
  [[nodiscard]] Operand value_of(int variable) const;
  [[nodiscard]] Operand gradient_of(int variable) const;
  /// Where element `offset` of the stretch of gradients stands; of values, which is in `group`.
  [[nodiscard]] Operand gradient_at(std::int64_t offset) const;
  [[nodiscard]] Operand value_at(int group, std::int64_t offset) const;
  /// Where tensor `id`, gathered to `layout`, stands before it is gathered: of a variable whose
  /// blocks are joined for that.
  [[nodiscard]] std::optional<Operand> joined_in(TensorId id, const Layout& layout) const;
  /// Whether a buffer is where such a variable is gathered.
  [[nodiscard]] bool is_joined(const Buffer& buffer) const;
  /// Where the narrow copy has what stands at `values_at`, if that is in one, at a place where
  /// operands of products can begin.
  [[nodiscard]] std::optional<Operand> narrow_copy_of(const Operand& values_at) const;
  /// Where backward writes the gradient of such a variable, if that is all of it: for a moment.
  [[nodiscard]] std::optional<Operand> whole_gradient_of(TensorId id) const;

  /// Books the redistribution of tensor `id` (or its gradient: `what` says), as
  /// lower_redistribution does; without steps the result is the source. It is between ranks that run
  /// the same operations, whatever places the layouts have.
  Operand move(TensorId id, Operand source, const Layout& from, const Layout& to,
               std::optional<Operand> destination, const std::string& what,
               bool source_is_free = false);

  /// Whether tensor `id` is a trained variable that one all-gather brings to `to`.
  [[nodiscard]] bool is_gather(TensorId id, const Layout& to) const;
  /// Starts one. What it gives books the rest.
  [[nodiscard]] std::function<Operand()> start_gather(const Gather& gather);
  [[nodiscard]] bool gathers_variables() const;

  /// Books this rank's part of a crossing of tensor `id`, whose block here is of `count` elements at
  /// `at`: the one that it sends or the one that it receives. Done at once, or started. Crossings that
  /// go on at the same time have different `way`s.
  void cross(const Crossing& crossing, TensorId id, std::int64_t count, Operand at,
             const std::string& what);
  struct Message {
    std::unique_ptr<Kernel> wait;
    Operand at;
    std::string label;
  };
  [[nodiscard]] Message start_crossing(const Crossing& crossing, TensorId id, std::int64_t count,
                                       Operand at, const std::string& what, int way = 0);
  void wait_for(Message message);

  /// Something was started. Until as much has ended, what can be done for it without waiting is done
  /// between kernels, where the transport has a use for that.
  void begun();
  void ended();

  /// A collective over `axes` on what has `global` elements on all ranks together.
  [[nodiscard]] CollectiveUse use_over(std::vector<Axis> axes, std::int64_t global,
                                       std::string what) const {
    return {{phase, std::move(what)}, std::move(axes), global};
  }

  /// Over `axes` every value shall be counted once: whether this rank counts one that lies as
  /// `layout`.
  [[nodiscard]] bool counts(const std::vector<Axis>& axes, const Layout& layout) const;
  /// The axes that split or place some trainable variable, ascending.
  [[nodiscard]] std::vector<Axis> axes_of_trainable_variables() const;

 private:
  void find_stages();
  /// The group of a variable whose blocks are joined, or -1.
  [[nodiscard]] int joined_group(TensorId id) const;

  int under_way_ = 0;
};

}  // namespace meshwork
