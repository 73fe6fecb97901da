#include "runtime/graph/lower.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <vector>

#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/placement.h"
#include "runtime/graph/step/context.h"
#include "runtime/graph/step/gradients.h"
#include "runtime/graph/step/operation_lowering.h"
#include "runtime/graph/step/recomputation.h"
#include "runtime/graph/step/sums.h"
#include "runtime/graph/step/update.h"
#include "runtime/graph/step/values.h"

namespace meshwork {
namespace {

// By operation: whether the step runs it. Prediction leaves out what only losses and metrics need.
std::vector<bool> operations_to_run(const Plan& plan, Mode mode) {
  if (mode != Mode::predict) {
    return std::vector<bool>(plan.operations.size(), true);
  }
  return operations_of_outputs(plan);
}

// By operation: whether a sum that others read follows from it. Those are of the whole batch, so that
// they come first, of all micro-batches.
std::vector<bool> operations_of_early_sums(const StepContext& step, const StepSums& sums) {
  std::vector<bool> early(step.plan.operations.size(), false);
  if (step.request.mode == Mode::predict) return early;
  std::vector<bool> wanted(step.graph.tensors.size(), false);
  for (std::size_t o = early.size(); o-- > 0;) {
    const PlannedOperation& planned = step.plan.operations[o];
    early[o] =
        wanted[planned.output] || (step.is_sum(planned.output) && sums.is_early(planned.output));
    for (const TensorId input : planned.inputs) wanted[input] = wanted[input] || early[o];
  }
  return early;
}

// What forward of a micro-batch leaves.
struct MicroBatch {
  StepValues values;
  std::vector<Remains> remains;                            // by operation
  std::map<std::size_t, std::function<void()>> rest = {};  // of backward, by operation
};

// Books forward of an operation that this rank runs, and what the loss is charged for its output. Sends
// the output to other places.
void book_forward(const ForwardParts& parts, const PlannedOperation& planned, Remains& remains) {
  auto& [step, values, sums] = parts;
  lower_forward(parts, planned, remains);
  if (step.is_sum(planned.output)) return;
  if (step.request.mode != Mode::predict) {
    sums.penalize(planned, values.settled(planned.output));
  }
  values.cross(planned.output);
}

// Books the operations that `early` marks, and completes the sums that follow from them.
void book_early_sums(StepContext& step, StepSums& sums, const std::vector<bool>& early,
                     std::vector<MicroBatch>& batches) {
  for (std::size_t batch = 0; batch < batches.size(); ++batch) {
    step.go_to(batch);
    auto& [values, remains, rest] = batches[batch];
    for (std::size_t o = 0; o < early.size(); ++o) {
      if (!early[o]) continue;
      const PlannedOperation& planned = step.plan.operations[o];
      if (step.stage_of_operation[o] >= 0) {
        book_forward({step, values, sums}, planned, remains[o]);
      } else if (!step.is_sum(planned.output)) {
        values.cross(planned.output);
      }
    }
  }
  for (std::size_t o = 0; o < early.size(); ++o) {
    const TensorId id = step.plan.operations[o].output;
    if (!early[o] || !step.is_sum(id)) continue;
    const PlannedTensor& sum = step.plan.tensors[id];
    const Layout whole = sum.layout.without_partial().at();
    Operand total = sums.fold(id);
    if (step.holds(sum.layout)) {
      total = step.move(id, total, sum.layout, whole, std::nullopt, step.name_of(id));
    }
    const Crossing crossing =
        crossing_of(sum.layout.places, sum.read_at, step.plan.mesh, step.collectives.rank());
    if (crossing.concerns_rank()) step.cross(crossing, id, 1, total, step.name_of(id));
    for (MicroBatch& batch : batches) batch.values.share(id, whole, total);
  }
}

// Books again, with what is there now, what forward of a span gave in the stage at hand.
void recompute(const ForwardParts& parts, const RecomputedSpan& span,
               std::vector<Remains>& remains) {
  StepContext& step = parts.step;
  step.phase = "recompute";
  std::vector<std::size_t> here;
  std::ranges::copy_if(span.operations, std::back_inserter(here),
                       [&](std::size_t o) { return step.stage_of_operation[o] == step.stage; });
  for (const std::size_t o : here) {
    parts.values.forget(step.plan.operations[o]);
    remains[o] = {};
  }
  for (const std::size_t o : here) {
    lower_forward_again(parts, step.plan.operations[o], remains[o]);
  }
  step.phase = "backward";
}

// Books backward of the stage and the micro-batch at hand, or of it the gradients of values alone.
void book_backward(const ForwardParts& parts, StepGradients& gradients,
                   std::span<const RecomputedSpan> spans, MicroBatch& batch, GradientsOf which) {
  auto& [step, values, sums] = parts;
  values.forget_gathered_variables();
  values.wait_for_sent();
  for (std::size_t o = step.plan.operations.size(); o-- > 0;) {
    if (!spans.empty() && o == spans.back().last) {
      recompute(parts, spans.back(), batch.remains);
      spans = spans.first(spans.size() - 1);
    }
    const PlannedOperation& planned = step.plan.operations[o];
    if (std::ranges::none_of(planned.gradient, std::identity())) continue;
    if (step.stage_of_operation[o] == step.stage) {
      if (!step.is_sum(planned.output)) gradients.complete(planned.output);
      const BackwardParts backward{step, values, gradients};
      if (which == GradientsOf::all) {
        lower_backward(backward, planned, batch.remains[o]);
      } else {
        batch.rest[o] = lower_gradients_of_values(backward, planned, batch.remains[o]);
      }
    }
    gradients.end_uses(o, which);
  }
}

// Books what that has left: the gradients of variables.
void book_rest_of_backward(StepContext& step, StepGradients& gradients, MicroBatch& batch) {
  for (std::size_t o = step.plan.operations.size(); o-- > 0;) {
    const PlannedOperation& planned = step.plan.operations[o];
    if (std::ranges::none_of(planned.gradient, std::identity())) continue;
    if (step.stage_of_operation[o] == step.stage) {
      batch.rest.at(o)();
      batch.rest.erase(o);
    }
    gradients.end_uses(o, GradientsOf::variables);
  }
}

// The values that a rank receives, by the stage that reads them first.
using Arriving = std::map<std::int64_t, std::vector<TensorId>>;
Arriving arriving_values(const StepContext& step, const std::vector<bool>& runs,
                         const std::vector<bool>& early) {
  const std::vector<PlannedOperation>& operations = step.plan.operations;
  const int rank = step.collectives.rank();
  std::vector<std::int64_t> reading(step.graph.tensors.size(), -1);
  for (std::size_t o = 0; o < operations.size(); ++o) {
    const std::int64_t stage = step.stage_of_operation[o];
    if (stage < 0) continue;
    for (const TensorId input : operations[o].inputs) {
      if (reading[input] < 0 || stage < reading[input]) reading[input] = stage;
    }
  }
  Arriving arriving;
  for (std::size_t o = 0; o < operations.size(); ++o) {
    const TensorId id = operations[o].output;
    if (!runs[o] || early[o] || step.stage_of_operation[o] >= 0 || step.is_sum(id)) continue;
    const PlannedTensor& tensor = step.plan.tensors[id];
    if (crossing_of(tensor.layout.places, tensor.read_at, step.plan.mesh, rank).receives_from < 0) {
      continue;
    }
    // What nobody reads here is received with the first stage.
    arriving[reading[id] < 0 ? step.first_stage : reading[id]].push_back(id);
  }
  return arriving;
}

GradientsOf gradients_of(Action::Kind kind) {
  return kind == Action::Kind::input_gradients    ? GradientsOf::values
         : kind == Action::Kind::weight_gradients ? GradientsOf::variables
                                                  : GradientsOf::all;
}

// Output `id`, whole, where the caller reads it.
Buffer book_prediction(StepContext& step, StepValues& values, TensorId id) {
  const std::string label = step.graph.outputs.size() == 1
                                ? "prediction"
                                : "prediction of " + step.graph.tensors[id].path;
  const std::int64_t count = element_count(step.shapes[id]);
  const Layout whole = Layout::replicated(step.shapes[id].size());
  const Layout& settled = step.plan.tensors[id].layout;
  const Buffer output = step.builder.scratch(count * float32_bytes, label);
  step.builder.keep(output);
  if (step.holds(settled)) {
    if (settled.at() == whole) {
      step.builder.emit(SumSpec{count, 1}, {values.settled(id), output}, label);
    } else {
      (void)step.move(id, values.settled(id), settled, whole, output, label);
    }
  }
  const Crossing crossing =
      crossing_of(settled.places, {}, step.plan.mesh, step.collectives.rank());
  if (crossing.concerns_rank()) step.cross(crossing, id, count, output, label);
  return output;
}

}  // namespace

std::string_view name_of(Mode mode) {
  switch (mode) {
    case Mode::train:
      return "train";
    case Mode::evaluate:
      return "evaluate";
    case Mode::predict:
      return "predict";
  }
  return "?";
}

ElementType LoweringRequest::fed_type(TensorId id) const {
  const auto found = fed.find(id);
  return found == fed.end() ? plan->graph->tensors[id].type : found->second;
}

std::vector<TensorId> fed_tensors(const Graph& graph, Mode mode) {
  std::vector<TensorId> fed;
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors.size()); ++id) {
    const TensorRole role = graph.tensors[id].role;
    if (role == TensorRole::input || (role == TensorRole::target && mode != Mode::predict)) {
      fed.push_back(id);
    }
  }
  return fed;
}

std::vector<Range> LoweringRequest::micro_batches() const {
  return (mode == Mode::train ? walk : StepWalk{}).of(rows);
}

Actions LoweringRequest::actions() const {
  if (mode != Mode::train) return {{{Action::Kind::forward, 0, 0}}};
  return actions_of(plan->staged ? walk.schedule : in_turn(),
                    plan->pipeline(std::ssize(micro_batches())));
}

std::vector<FedPart> fed_parts(const Plan& plan, Mode mode, const std::vector<Range>& micro_batches,
                               std::int64_t rank, const Piece* piece) {
  std::vector<FedPart> parts;
  for (const Range& rows : micro_batches) {
    for (const TensorId id : fed_tensors(*plan.graph, mode)) {
      Shape shape = plan.graph->shape_of(id, rows.length());
      if (piece != nullptr) shape = piece->shape_of(id, std::move(shape));
      Block block = block_of(plan.tensors[id].layout, shape, plan.mesh, rank);
      block.front().begin += rows.begin;
      block.front().end += rows.begin;
      parts.push_back({id, std::move(block)});
    }
  }
  return parts;
}

namespace {

// Books the step of a new context.
LoweredStep book_step(StepContext& step) {
  const LoweringRequest& request = step.request;
  StepSums sums(step);
  const Actions all_actions = request.actions();
  StepGradients gradients(step, all_actions);
  LoweredStep lowered;
  const std::vector<bool> runs = operations_to_run(step.plan, request.mode);
  std::vector<RecomputedSpan> spans;
  if (request.mode == Mode::train) {
    spans = recomputed_spans(step.plan, request.walk.recompute);
  }
  std::vector<MicroBatch> batches;
  for (std::size_t batch = 0; batch < step.micro_batches.size(); ++batch) {
    step.go_to(batch);
    batches.push_back({StepValues(step), std::vector<Remains>(step.plan.operations.size())});
  }
  const std::vector<bool> early = operations_of_early_sums(step, sums);
  book_early_sums(step, sums, early, batches);
  Arriving arriving = arriving_values(step, runs, early);
  const std::vector<Action>& actions = all_actions[static_cast<std::size_t>(step.first_stage)];
  const std::int64_t last_stage = std::ranges::max(actions, {}, &Action::stage).stage;
  // Begins to receive what an action will wait for.
  const auto expect = [&](const Action& action) {
    step.go_to(static_cast<std::size_t>(action.micro_batch), action.stage);
    if (action.kind != Action::Kind::forward) {
      step.phase = "backward";
      gradients.expect(gradients_of(action.kind));
      return;
    }
    step.phase = "forward";
    for (const TensorId id : arriving[action.stage]) batches[step.micro_batch].values.cross(id);
  };
  // Stages begin an action ahead.
  const std::size_t ahead = step.plan.staged ? 1 : 0;
  if (ahead > 0) expect(actions.front());
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (i + ahead < actions.size()) expect(actions[i + ahead]);
    const auto& [kind, stage, micro_batch] = actions[i];
    step.go_to(static_cast<std::size_t>(micro_batch), stage);
    MicroBatch& batch = batches[step.micro_batch];
    auto& [values, remains, rest] = batch;
    if (kind != Action::Kind::forward) gradients.begin(i);
    if (kind == Action::Kind::weight_gradients) {
      step.phase = "backward";
      book_rest_of_backward(step, gradients, batch);
      continue;
    }
    if (kind != Action::Kind::forward) {
      step.phase = "backward";
      book_backward({step, values, sums}, gradients, spans, batch, gradients_of(kind));
      continue;
    }
    step.phase = "forward";
    values.begin_pass();
    for (std::size_t o = 0; o < step.plan.operations.size(); ++o) {
      if (runs[o] && !early[o] && step.stage_of_operation[o] == stage) {
        book_forward({step, values, sums}, step.plan.operations[o], remains[o]);
      }
    }
    if (request.mode == Mode::predict) {
      for (const TensorId id : step.graph.outputs) {
        lowered.outputs.push_back(book_prediction(step, values, id));
      }
    } else if (stage == last_stage) {
      sums.settle();
    }
  }
  for (MicroBatch& batch : batches) batch.values.end_messages();
  gradients.wait_for_sent();
  if (request.mode == Mode::predict) return lowered;
  if (request.mode == Mode::train) {
    step.phase = "update";
    update_parameters(step, gradients, sums);
  }
  step.phase = "metrics";
  sums.reduce();
  lowered.sum_tensors = sums.tensors();
  lowered.sum_count = sums.own_count();
  lowered.sums = sums.buffer();
  lowered.has_penalty = sums.has_penalty();
  lowered.has_gradient_norm = sums.has_gradient_norm();
  return lowered;
}

// In which order a step gathers variables, as one without a device shows.
std::vector<StepContext::GatherOrder> order_of_gathers(LoweringRequest request,
                                                       const MeshCollectives& collectives) {
  request.parameters = nullptr;
  request.step_scalars = nullptr;
  request.gathered_rows = nullptr;
  request.feeds.clear();
  ProgramBuilder builder;
  const auto planned = plan_collectives(collectives.mesh(), collectives.rank());
  StepContext step(request, builder, *planned);
  step.notes_gathers = true;
  step.gather_order.resize(step.micro_batches.size());
  (void)book_step(step);
  return std::move(step.gather_order);
}

}  // namespace

LoweredStep lower(const LoweringRequest& request, ProgramBuilder& builder,
                  MeshCollectives& collectives) {
  if (request.mode == Mode::train) check_stages(*request.plan);
  StepContext step(request, builder, collectives);
  if (request.mode != Mode::predict && step.gathers_variables()) {
    step.gather_order = order_of_gathers(request, collectives);
  }
  return book_step(step);
}

}  // namespace meshwork
