// Plan: a Layout for every tensor, and how every operation is spread.
//
// A plan follows from a graph, a mesh and the layouts that the user gives for some paths. It is a
// value, the same on all ranks and independent of rank, device and batch length; `lower` (lower.h)
// turns it into what one rank executes, and every collective follows from it.
//
// Words. The *layout* of a tensor is the one in which its consumers find it and in which its
// gradient, fully reduced, is. An operation's *split* says which axes split which letter of its
// rule. From it follow the layouts in which the operation takes its inputs (*needed*), in which it
// leaves its output (*natural*, possibly partial), and in which the raw gradient of each input
// comes out (*raw*, possibly partial). Where needed, natural or raw differ from the tensor's
// layout, a redistribution stands between them.
//
// How the planner chooses:
//
//   1. Tensors with a layout of the user's are *closed*: variables, layer outputs and inputs by the
//      map; variables that it does not name are replicated, inputs are split over the batch axis in
//      dimension 0, and targets as the map says for what they are compared with, else as inputs.
//   2. The batch axis splits the batch letter of every operation that has one, so that batches are
//      never mixed for a saving; only next to an output that the user laid out otherwise is it
//      free.
//   3. Any other axis is in play if some layout of the user's names it. For each operation the
//      candidates are all ways to let the axes in play split its letters, or none; and, where the
//      output comes out partial, to reduce it whole or scattered over one of its dimensions.
//   4. Costs are predicted seconds, forward and backward: of redistributions between neighbours, of
//      the reduction of gradients and of the operations' own collectives; and of the arithmetic
//      of the rank that has most, so that what many ranks compute alike costs what it takes. Ties
//      go to the split that computes less, then to the earlier candidate. The cheapest combination
//      over the whole graph is found exactly (choice_network.h), but for two bounds on time, which take
//      three or four axes in play: an operation keeps the 256 candidates that are cheapest by
//      themselves, and one whose neighbours have too many combinations is chosen before them. The
//      plan tells of which operations (`Plan::cut`).
//   5. Memory can have a price, in seconds a byte. It is paid for every result that waits for
//      backward, and for copies in other layouts that backward reads. `plan_within` raises it until
//      a limit holds.
//   6. An axis may split the model instead (placement.h). It is in no layout and not in play; its
//      places are put into the layouts when they are chosen.
//   7. Afterwards operations are joined, and other rewrites made, that change no layout
//      (rewrites/rewrites.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/kernels/activation.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/schedule.h"
#include "runtime/mesh/layout.h"
#include "runtime/mesh/mesh_shape.h"

namespace meshwork {

/// What a step is taken to cost: a collective over n ranks in which a rank sends b bytes takes
/// latency * ceil(log2 n) + b / bandwidth, and an operation its floating-point operations
/// (`Operation::flops`) / rate: once for forward, and once more for each input that gets a
/// gradient. Fixed defaults, so that every machine makes the same plan. The rate is that of one
/// core with AVX-512: 1.3 GFLOP of convolutions in 7.8 ms, forward and backward, and less in
/// products of small networks. A device that computes faster is as a rule one that communicates
/// faster too.
struct CostModel {
  double latency_seconds = 2e-6;
  double bytes_per_second = 10e9;
  double flops_per_second = 150e9;
  /// What a byte of a result costs that waits for backward: more of it buys memory with time.
  double seconds_per_held_byte = 0;
};

/// A layout that the planner has to keep, and where it comes from ("key d1/kernel").
struct ClosedLayout {
  Layout layout;
  std::string reason;
};

struct PlanRequest {
  const Graph* graph = nullptr;
  /// The operations whose outputs are losses, with their weights in the sum that training makes
  /// small. Without any, nothing needs a gradient.
  std::map<int, double> losses;
  MeshShape mesh;
  /// The axis that splits batches, or none.
  std::optional<Axis> batch_axis;
  /// By tensor. Variables that are not in it are replicated.
  std::map<TensorId, ClosedLayout> closed;
  /// The batch length that costs are computed for.
  std::int64_t rows = 1;
  CostModel costs;
  /// The axes that place parts of the model, ascending, and what is placed, by the path of its layer.
  std::vector<Axis> placing = {};
  std::map<std::string, Places> placed = {};
  /// One of them that has the stages of a pipeline. Coordinates on it are numbers of stages.
  std::optional<StagedAxis> staged = {};
};

/// Which axes split each letter; letters without axes are absent.
using Split = std::map<char, std::vector<Axis>>;

struct PlannedOperation {
  std::shared_ptr<const Operation> operation;
  std::vector<TensorId> inputs;
  TensorId output = -1;
  std::string path;
  std::string draws_as;  // the path that its random numbers go by: of the part that draws
  Rule rule;             // of the operation as the graph has it, before it was joined with others
  Split split;
  std::vector<Layout> needed;  // by input
  Layout natural;
  std::vector<Layout> raw;                // by input: layout of its raw gradient
  std::vector<bool> gradient;             // by input: whether backward gives it
  double loss_weight = 1;                 // of a loss
  std::vector<std::int64_t> stages = {};  // of a pipeline, ascending; none: it runs everywhere
};

/// x * scale + offset, element by element.
struct Scaling {
  float scale = 1, offset = 0;
};

struct PlannedTensor {
  Layout layout;
  std::string reason;     // who decided: "key d1/kernel", "batch axis", "by rule"
  bool gradient = false;  // whether it has one
  // If not linear: the gradient is that of what stands before this activation, which made the
  // tensor. Its only use multiplies by the derivative, taken at the value of `derivative_at`.
  Activation gradient_before = Activation::linear;
  TensorId derivative_at = -1;
  std::optional<Scaling> scaling = {};  // of what is fed, where it is converted
  Places read_at = {};                  // of a value: everywhere that it is made or read
};

/// What making a plan took, in counts that depend on graph, axes and layouts but not on how many
/// ranks an axis has.
struct PlanningWork {
  std::int64_t candidates = 0;       // ways to spread operations, over all operations
  std::int64_t redistributions = 0;  // pairs of layouts whose redistribution was planned
  std::int64_t exchanges = 0;        // windows of inputs whose exchange was priced
};

/// An operation that has more candidates than the planner weighed with those of its neighbours:
/// `weighed` are the cheapest by themselves.
struct CutChoice {
  std::string path;
  std::int64_t candidates = 0;
  std::int64_t weighed = 0;
};

/// The plan that would be made if memory had no limit.
struct PlanWithoutLimit {
  std::int64_t limit = 0;    // bytes
  std::int64_t bytes = 0;    // that this plan takes
  double times_as_long = 1;  // the plan that is taken, as predicted
};

/// Predicted seconds of one training step on a rank.
struct StepSeconds {
  double communication = 0, arithmetic = 0;  // of each micro-batch
  double reduction = 0;  // of gradients that all micro-batches share, once a step
  [[nodiscard]] double of_micro_batch() const { return communication + arithmetic; }
  [[nodiscard]] double of_step(std::int64_t micro_batches) const {
    return static_cast<double>(micro_batches) * of_micro_batch() + reduction;
  }
};

/// Of the ranks that take longest for a step of so many micro-batches.
[[nodiscard]] StepSeconds longest(const std::vector<StepSeconds>& ranks,
                                  std::int64_t micro_batches = 1);

struct Plan {
  std::shared_ptr<const Graph> graph;
  MeshShape mesh;
  CostModel costs;
  std::vector<PlannedTensor> tensors;        // by TensorId
  std::vector<PlannedOperation> operations;  // in order; joined ones once
  std::vector<Axis> placing = {};            // the axes over which ranks run different operations
  std::optional<StagedAxis> staged = {};     // one of them, of more than one rank
  std::vector<StepSeconds> seconds;  // by the ranks' index over `placing`; without such, one
  PlanningWork work;
  std::optional<PlanWithoutLimit> without_limit;  // where it took more than the limit
  std::vector<CutChoice> cut;  // in the order of the graph's operations; none: nothing is cheaper
  /// The stages of the pipeline for `micro_batches`; a single one without a pipeline.
  [[nodiscard]] Pipeline pipeline(std::int64_t micro_batches) const;
};

/// Makes the plan. Pure: no MPI, any mesh. Throws `Error` for closed layouts that do not fit.
[[nodiscard]] Plan make_plan(const PlanRequest& request, std::shared_ptr<const Graph> graph);

/// `fastest`, made for `request`, if `bytes_of`(plan) are at most `limit`. Else the plan of the first
/// price of memory at which they are: each is ten times the one before. Throws `Error` if there is
/// none.
[[nodiscard]] Plan plan_within(std::int64_t limit, Plan fastest, PlanRequest request,
                               const std::shared_ptr<const Graph>& graph,
                               const std::function<std::int64_t(const Plan&)>& bytes_of);

}  // namespace meshwork
