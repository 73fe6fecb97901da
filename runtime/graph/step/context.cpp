#include "runtime/graph/step/context.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/device/kernels/products.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/narrowing.h"
#include "runtime/graph/placement.h"
#include "runtime/mesh/lower_redistribution.h"

namespace meshwork {
StepContext::StepContext(const LoweringRequest& request, ProgramBuilder& builder,
                         MeshCollectives& collectives)
    : request(request),
      plan(*request.plan),
      graph(*request.plan->graph),
      form(*request.form),
      builder(builder),
      collectives(collectives),
      micro_batches(request.micro_batches()),
      shapes(graph.tensors.size()) {
  go_to(0);
  find_stages();
  const Parameters* parameters = request.parameters;
  const auto book = [&](void* memory, std::int64_t bytes, const std::string& label) {
    return builder.external(parameters ? memory : nullptr, bytes, label);
  };
  static const Parameters::Group nowhere;
  for (int g = 0; g < static_cast<int>(form.groups.size()); ++g) {
    const ParameterGroup& group = form.groups[g];
    const Parameters::Group& memory = parameters ? parameters->group(g) : nowhere;
    Group& booked = groups.emplace_back();
    booked.values = book(memory.values.data(), group.held * float32_bytes, "parameters");
    if (group.narrowed) {
      booked.narrow = book(memory.narrow.data(), group.held * bfloat16_bytes, "narrow copy");
    }
    const std::size_t slots = training() ? request.update->slots.size() : 0;
    for (std::size_t slot = 0; slot < slots; ++slot) {
      booked.slots.push_back(book(parameters ? memory.slots[slot].data() : nullptr,
                                  group.count * float32_bytes,
                                  "optimizer slot " + request.update->slots[slot].name));
    }
  }
  fixed = book(parameters ? parameters->fixed() : nullptr, form.fixed_count * float32_bytes,
               "fixed variables");
  gradients = book(parameters ? parameters->gradients() : nullptr,
                   (form.trainable_count + form.whole_count) * float32_bytes, "gradients");
  scalars = builder.external(request.step_scalars, sizeof(StepScalars), "step scalars");
}

void StepContext::go_to(std::size_t index, std::int64_t in_stage) {
  stage = in_stage;
  micro_batch = index;
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors.size()); ++id) {
    shapes[id] = graph.shape_of(id, rows().length());
    if (request.piece) shapes[id] = request.piece->shape_of(id, std::move(shapes[id]));
  }
}

void StepContext::find_stages() {
  const int rank = collectives.rank();
  stage_of_gradient.assign(graph.tensors.size(), -1);
  for (const PlannedOperation& planned : plan.operations) {
    const std::int64_t here =
        training() ? stage_on(plan, planned, rank) : (holds(planned.natural) ? 0 : -1);
    stage_of_operation.push_back(here);
    stage_of_gradient[planned.output] = here;
  }
  first_stage = plan.staged && training() ? plan.mesh.coordinate(rank, plan.staged->axis) : 0;
  for (const Variable& variable : graph.variables) {
    // Others may use it in any stage, even in one that goes backward last.
    if (holds(plan.tensors[variable.tensor].layout))
      stage_of_gradient[variable.tensor] = first_stage;
  }
}

std::string StepContext::name_of(TensorId id) const {
  const GraphTensor& tensor = graph.tensors[id];
  if (!tensor.path.empty()) {
    return tensor.path;
  }
  return tensor.producer >= 0 ? graph.operations[tensor.producer].path
                              : "tensor " + std::to_string(id);
}

Block StepContext::block(TensorId id, const Layout& layout) const {
  return block_of(layout, shapes[id], plan.mesh, collectives.rank());
}

std::int64_t StepContext::count(TensorId id, const Layout& layout) const {
  return element_count(shape_of(block(id, layout)));
}

Operand StepContext::gradient_at(std::int64_t offset) const {
  return Operand(gradients).after(offset);
}

Operand StepContext::value_at(int group, std::int64_t offset) const {
  return Operand(groups[group].values).after(form.groups[group].place(offset));
}

Operand StepContext::value_of(int variable) const {
  const ParameterSpan& span = form.spans[variable];
  return span.trainable ? value_at(span.group, span.offset) : Operand(fixed).after(span.offset);
}

Operand StepContext::gradient_of(int variable) const {
  return gradient_at(form.spans[variable].offset);
}

int StepContext::joined_group(TensorId id) const {
  const int variable = variable_of(id);
  const int group = variable < 0 ? -1 : form.spans[variable].group;
  return group >= 0 && form.groups[group].home == Home::joined ? group : -1;
}

std::optional<Operand> StepContext::joined_in(TensorId id, const Layout& layout) const {
  const int group = joined_group(id);
  return group >= 0 && form.groups[group].gathered == layout
             ? std::optional(Operand(groups[group].values))
             : std::nullopt;
}

bool StepContext::is_joined(const Buffer& buffer) const {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].values == buffer) {
      return form.groups[g].home == Home::joined;
    }
  }
  return false;
}

std::optional<Operand> StepContext::narrow_copy_of(const Operand& values_at) const {
  // A group's memory begins where a line does, joined blocks in it anywhere.
  const std::int64_t at = values_at.offset / float32_bytes * bfloat16_bytes;
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
    return group.narrow.exists() && group.values == values_at.buffer;
  });
  return found != groups.end() && at % narrow_alignment == 0
             ? std::optional(Operand(found->narrow, at))
             : std::nullopt;
}

std::optional<Operand> StepContext::whole_gradient_of(TensorId id) const {
  const int group = joined_group(id);
  if (group < 0 || !form.groups[group].whole_gradient) {
    return std::nullopt;
  }
  return gradient_at(form.trainable_count + *form.groups[group].whole_gradient);
}

Operand StepContext::move(TensorId id, Operand source, const Layout& from, const Layout& to,
                          std::optional<Operand> destination, const std::string& what,
                          bool source_is_free) {
  return lower_redistribution(
      builder, collectives, plan_redistribution(from.at(), to.at(), shapes[id], plan.mesh),
      shapes[id], graph.tensors[id].type, source, destination, {phase, what}, source_is_free);
}

bool StepContext::is_gather(TensorId id, const Layout& to) const {
  const int variable = variable_of(id);
  if (variable < 0 || !form.spans[variable].trainable) return false;
  const std::vector<RedistributionStep> steps =
      plan_redistribution(plan.tensors[id].layout.at(), to.at(), shapes[id], plan.mesh);
  return steps.size() == 1 && steps.front().kind == StepKind::all_gather;
}

bool StepContext::gathers_variables() const {
  return std::ranges::any_of(plan.operations, [&](const PlannedOperation& operation) {
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      if (is_gather(operation.inputs[i], operation.needed[i])) return true;
    }
    return false;
  });
}

std::function<Operand()> StepContext::start_gather(const Gather& gather) {
  const auto& [id, to, when] = gather;
  const std::vector<RedistributionStep> steps =
      plan_redistribution(plan.tensors[id].layout.at(), to.at(), shapes[id], plan.mesh);
  std::function<Operand()> end =
      start_all_gather(builder, collectives, steps.front(), shapes[id], graph.tensors[id].type,
                       value_of(variable_of(id)), joined_in(id, to), {when, name_of(id)});
  begun();
  return [this, end = std::move(end)] {
    const Operand gathered = end();
    ended();
    return gathered;
  };
}

bool StepContext::counts(const std::vector<Axis>& axes, const Layout& layout) const {
  return std::all_of(axes.begin(), axes.end(), [&](Axis axis) {
    const auto place = std::ranges::find(layout.places, axis, &Place::axis);
    const std::int64_t first = place == layout.places.end() ? 0 : place->coordinates.front();
    return !layout.replicates(axis) || plan.mesh.coordinate(collectives.rank(), axis) == first;
  });
}

namespace {

Exchange exchange_of(const Crossing& crossing, int channel, ElementType type, std::int64_t count) {
  Exchange exchange{.type = type, .sends = {}, .receives = {}, .channel = channel};
  for (const int peer : crossing.sends_to) exchange.sends.push_back({peer, count, 0});
  if (crossing.receives_from >= 0) exchange.receives.push_back({crossing.receives_from, count, 0});
  return exchange;
}

}  // namespace

void StepContext::cross(const Crossing& crossing, TensorId id, std::int64_t count, Operand at,
                        const std::string& what) {
  CollectiveUse use = use_over(crossing.axes, count, what);
  use.name = "send";
  builder.emit(collectives.book(use, exchange_of(crossing, id, graph.tensors[id].type, count)),
               {at, at}, what);
}

StepContext::Message StepContext::start_crossing(const Crossing& crossing, TensorId id,
                                                 std::int64_t count, Operand at,
                                                 const std::string& what, int way) {
  const int channel = id + way * static_cast<int>(graph.tensors.size());
  CollectiveUse use = use_over(crossing.axes, count, what);
  use.name = "send";
  auto [start, wait] =
      collectives.book_started(use, exchange_of(crossing, channel, graph.tensors[id].type, count));
  builder.emit(std::move(start), {at, at}, "start " + what);
  begun();
  return {std::move(wait), at, "wait for " + what};
}

void StepContext::wait_for(Message message) {
  builder.emit(std::move(message.wait), {message.at, message.at}, message.label);
  ended();
}

void StepContext::begun() {
  if (under_way_++ > 0) return;
  builder.follow_kernels([&collectives = collectives] { return collectives.advance(); },
                         "collectives on their way");
}

void StepContext::ended() {
  if (--under_way_ == 0) builder.follow_kernels();
}

std::vector<Axis> StepContext::axes_of_trainable_variables() const {
  std::set<Axis> axes;
  for (const ParameterSpan& span : form.spans) {
    if (span.trainable) {
      const std::vector<Axis> own = span.layout.splitting_axes();
      axes.insert(own.begin(), own.end());
      for (const Place& place : span.layout.places) axes.insert(place.axis);
    }
  }
  return {axes.begin(), axes.end()};
}

}  // namespace meshwork
