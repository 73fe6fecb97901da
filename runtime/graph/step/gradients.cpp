#include "runtime/graph/step/gradients.h"

#include <algorithm>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/placement.h"
#include "runtime/mesh/block_copy.h"
#include "runtime/mesh/lower_windows.h"
#include "runtime/mesh/redistribution.h"

namespace meshwork {

StepGradients::StepGradients(StepContext& step, const Actions& actions)
    : step_(step),
      actions_(actions),
      bucket_of_(step.graph.variables.size(), -1),
      waiting_(step.form.buckets.size()),
      kept_(step.graph.tensors.size()) {
  for (std::size_t b = 0; b < step.form.buckets.size(); ++b) {
    int& left = left_in_bucket_.emplace_back(0);
    for (const int variable : step.form.buckets[b].variables) {
      if (!step.form.spans[variable].held) continue;
      bucket_of_[variable] = static_cast<int>(b);
      left += static_cast<int>(step.micro_batches.size());
    }
  }
  if (!step.training()) return;
  const std::int64_t stages = step.plan.pipeline(1).stages();
  timeline_ = timeline_of(actions, std::vector<double>(static_cast<std::size_t>(stages), 1));
  for (const PlannedOperation& operation : step.plan.operations) {
    makers_[operation.output] = &operation;
  }
  std::vector<Given> none(step.graph.tensors.size());
  for (const PlannedOperation& operation : step.plan.operations) {
    const Places& at = operation.natural.places;
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      if (!operation.gradient[i]) continue;
      Given& of = none[operation.inputs[i]];
      ++of.uses_left;
      if (at == step.plan.tensors[operation.inputs[i]].layout.places) continue;
      const auto known = std::ranges::find(of.uses_at, at, &std::pair<Places, int>::first);
      if (known == of.uses_at.end()) {
        of.uses_at.emplace_back(at, 1);
      } else {
        ++known->second;
      }
    }
  }
  for (std::size_t batch = 0; batch < step.micro_batches.size(); ++batch) {
    std::vector<Given>& all = given_.emplace_back(none.size());
    for (std::size_t id = 0; id < none.size(); ++id) {
      all[id].uses_left = none[id].uses_left;
      all[id].uses_at = none[id].uses_at;
    }
  }
}

void StepGradients::expect(GradientsOf which) {
  for (TensorId id = 0; id < std::ssize(step_.graph.tensors); ++id) {
    const bool is_variable = step_.variable_of(id) >= 0;
    if (step_.stage_of_gradient[id] != step_.stage || !meshwork::includes(which, is_variable) ||
        (is_variable && !is_last_micro_batch())) {
      continue;
    }
    Given& of = given(id);
    for (std::size_t way = 0; way < of.uses_at.size(); ++way) {
      const Layout& settled = step_.plan.tensors[id].layout;
      const Crossing crossing = crossing_of(of.uses_at[way].first, settled.places, step_.plan.mesh,
                                            step_.collectives.rank());
      if (crossing.receives_from < 0) continue;
      const std::string what = step_.name_of(id) + " gradient";
      const std::int64_t count = step_.count(id, settled.at());
      const Buffer received = step_.builder.scratch(count * float32_bytes, what);
      of.arriving.emplace(way, Contribution{settled, received,
                                            step_.start_crossing(crossing, id, count, received,
                                                                 what, static_cast<int>(way))});
    }
  }
}

bool StepGradients::goes_to_bucket(TensorId id) const {
  const int variable = step_.variable_of(id);
  return variable >= 0 && step_.form.spans[variable].in_place;
}

std::optional<Operand> StepGradients::place_of(TensorId id) const {
  return goes_to_bucket(id) && step_.micro_batch == 0
             ? std::optional(step_.gradient_of(step_.variable_of(id)))
             : std::nullopt;
}

void StepGradients::add_to_place(int variable, Operand gradient) {
  const Operand place = step_.gradient_of(variable);
  const std::string& path = step_.graph.variables[variable].path;
  step_.builder.emit(SumSpec{step_.form.spans[variable].count, 2}, {place, gradient, place},
                     path + " gradient");
}

Operand StepGradients::sum_of_two(TensorId id, std::int64_t count, Operand a, Operand b) {
  const Buffer sum =
      step_.builder.scratch(count * float32_bytes, "gradient of " + step_.name_of(id));
  step_.builder.emit(SumSpec{count, 2}, {a, b, sum}, step_.name_of(id) + " gradient");
  return sum;
}

void StepGradients::add_contribution(TensorId id, const Layout& raw, Operand gradient) {
  std::vector<Contribution>& all = given(id).contributions;
  const auto is_alike = [&](const Contribution& known) { return known.layout == raw; };
  const auto first = std::ranges::find_if(all, is_alike);
  if (first == all.end()) {
    all.push_back({raw, gradient});
    return;
  }
  // Several alike have arrived from elsewhere. They came before, in the order of backward.
  const std::int64_t count = step_.count(id, raw);
  for (auto next = first + 1; next != all.end(); ++next) {
    if (is_alike(*next)) first->at = sum_of_two(id, count, arrived(*first), arrived(*next));
  }
  first->at = sum_of_two(id, count, arrived(*first), gradient);
  all.erase(std::remove_if(first + 1, all.end(), is_alike), all.end());
}

Operand StepGradients::arrived(Contribution& contribution) {
  if (contribution.arriving) {
    step_.wait_for(*std::exchange(contribution.arriving, std::nullopt));
  }
  return contribution.at;
}

void StepGradients::contribute(TensorId id, const Layout& raw, Operand gradient) {
  if (!place_of(id)) {
    goes_to_bucket(id) ? add_to_place(step_.variable_of(id), gradient)
                       : add_contribution(id, raw, gradient);
  }
}

void StepGradients::contribute_box(TensorId id, const Layout& raw, const Windows& windows,
                                   Operand gradient) {
  const MeshShape& mesh = step_.plan.mesh;
  const auto same = std::find_if(
      given(id).boxes.begin(), given(id).boxes.end(),
      [&](const auto& box) { return box.raw == raw && same_boxes(box.windows, windows, mesh); });
  if (same == given(id).boxes.end()) {
    given(id).boxes.push_back({raw, windows, gradient});
  } else {
    const std::int64_t count = size_of(box_of(windows, mesh, step_.collectives.rank()));
    same->gradient = sum_of_two(id, count, same->gradient, gradient);
  }
}

void StepGradients::give_back_boxes(TensorId id, const Places& at) {
  for (const BoxGradient& box : given(id).boxes) {
    if (box.raw.places != at) continue;
    const Operand block = lower_windows_back(step_.builder, step_.collectives, box.windows,
                                             ElementType::float32, box.gradient, place_of(id),
                                             {step_.phase, step_.name_of(id) + " gradient"});
    if (!place_of(id)) {
      goes_to_bucket(id) ? add_to_place(step_.variable_of(id), block)
                         : add_contribution(id, box.raw, block);
    }
  }
}

void StepGradients::end_uses(std::size_t index, GradientsOf which) {
  const PlannedOperation& planned = step_.plan.operations[index];
  const std::int64_t here = step_.stage_of_operation[index];
  for (std::size_t i = 0; i < planned.inputs.size(); ++i) {
    const TensorId id = planned.inputs[i];
    if (!planned.gradient[i] || !meshwork::includes(which, step_.variable_of(id) >= 0)) continue;
    const std::int64_t stage = here < 0 ? step_.stage_of_gradient[id] : here;
    if (stage == step_.stage) use_ended(id, planned.natural.places);
  }
}

void StepGradients::use_ended(TensorId id, const Places& at) {
  Given& of = given(id);
  for (std::size_t way = 0; way < of.uses_at.size(); ++way) {
    auto& [places, left] = of.uses_at[way];
    if (places == at && --left == 0) cross_back(id, way);
  }
  if (--of.uses_left > 0) {
    return;
  }
  const Layout& settled = step_.plan.tensors[id].layout;
  if (!step_.holds(settled)) {
    return;
  }
  give_back_boxes(id, settled.places);
  if (const int variable = step_.variable_of(id); variable >= 0) {
    complete_variable(variable);
  }
}

Operand StepGradients::with_kept(TensorId id, const Places& from, Operand sum) {
  const auto known = std::ranges::find(kept_[id], from, &std::pair<Places, Operand>::first);
  if (known == kept_[id].end()) return kept_[id].emplace_back(from, sum).second;
  const std::int64_t count = step_.count(id, step_.plan.tensors[id].layout.at());
  return known->second = sum_of_two(id, count, known->second, sum);
}

void StepGradients::cross_back(TensorId id, std::size_t way) {
  Given& of = given(id);
  const Places& from = of.uses_at[way].first;
  const Layout& settled = step_.plan.tensors[id].layout;
  std::optional<Operand> sum;
  if (includes(from, step_.plan.mesh, step_.collectives.rank())) {
    give_back_boxes(id, from);
    std::vector<Contribution> others, own;
    for (Contribution& one : of.contributions) {
      (one.layout.places == from ? own : others).push_back(std::move(one));
    }
    of.contributions = std::move(own);
    sum = sum_of_contributions(id, std::nullopt);
    of.contributions = std::move(others);
    if (step_.variable_of(id) >= 0) sum = with_kept(id, from, *sum);
  }
  if (step_.variable_of(id) >= 0 && !is_last_micro_batch()) return;
  const Crossing crossing =
      crossing_of(from, settled.places, step_.plan.mesh, step_.collectives.rank());
  if (!crossing.sends_to.empty()) {
    double taken = 0;
    for (const int peer : crossing.sends_to) {
      const std::int64_t rank =
          step_.plan.mesh.neighbour(step_.collectives.rank(), crossing.axes, peer);
      taken = std::max(taken, taken_at(id, rank));
    }
    sent_.emplace_back(
        taken, step_.start_crossing(crossing, id, step_.count(id, settled.at()), *sum,
                                    step_.name_of(id) + " gradient", static_cast<int>(way)));
  }
  if (const auto arriving = of.arriving.find(way); arriving != of.arriving.end()) {
    of.contributions.push_back(std::move(arriving->second));
  } else if (sum && step_.holds(settled)) {
    of.contributions.push_back({settled, *sum});
  }
}

double StepGradients::taken_at(TensorId id, std::int64_t rank) const {
  if (!step_.plan.staged) return 0;
  const Axis axis = step_.plan.staged->axis;
  const std::int64_t coordinate = step_.plan.mesh.coordinate(rank, axis);
  const auto maker = makers_.find(id);
  const std::int64_t stage =
      maker == makers_.end() ? coordinate : stage_on(step_.plan, *maker->second, rank);
  const std::vector<Action>& list = actions_[static_cast<std::size_t>(coordinate)];
  const auto takes = std::ranges::find_if(list, [&](const Action& action) {
    return action.kind != Action::Kind::forward && action.stage == stage &&
           action.micro_batch == static_cast<std::int64_t>(step_.micro_batch) &&
           action.kind != (maker == makers_.end() ? Action::Kind::input_gradients
                                                  : Action::Kind::weight_gradients);
  });
  // It begins to receive with the action before, so when the one before that has ended.
  const auto index = takes - list.begin();
  return index < 2
             ? 0
             : timeline_
                   .end[static_cast<std::size_t>(coordinate)][static_cast<std::size_t>(index - 2)];
}

void StepGradients::begin(std::size_t index) {
  const double now = timeline_.begin[static_cast<std::size_t>(step_.first_stage)][index];
  for (auto& [taken, message] : sent_) {
    if (taken <= now) step_.wait_for(std::move(message));
  }
  std::erase_if(sent_, [&](const auto& sent) { return sent.first <= now; });
}

void StepGradients::wait_for_sent() {
  for (auto& [taken, message] : sent_) step_.wait_for(std::move(message));
  sent_.clear();
}

void StepGradients::start_reduction(TensorId id, const Layout& raw, Operand gradient) {
  const bool alone =
      given(id).uses_left == 1 && given(id).contributions.empty() && given(id).boxes.empty();
  if (!alone || step_.variable_of(id) >= 0) {
    return;
  }
  const Shape& shape = step_.shapes[id];
  const Layout& settled = step_.plan.tensors[id].layout;
  if (raw.places != settled.places) {
    return;
  }
  const std::vector<RedistributionStep> steps =
      plan_redistribution(raw.at(), settled.at(), shape, step_.plan.mesh);
  if (steps.size() != 1 || steps.front().kind != StepKind::all_reduce) {
    return;
  }
  const std::string what = step_.name_of(id) + " gradient";
  // Branches may come in turns, so that one begins before another is over.
  const bool others = reductions_++ > 0;
  auto [start, wait] = step_.collectives.book_started(
      step_.use_over(steps.front().axes, element_count(shape), what),
      AllReduce{ElementType::float32, Reduction::sum, step_.count(id, raw)},
      others ? MeshCollectives::UnderWay::beside_others : MeshCollectives::UnderWay::briefly);
  step_.builder.emit(std::move(start), {gradient}, "start " + what);
  go_on(given(id).reducing, {std::move(wait), gradient, "wait for " + what});
}

void StepGradients::complete(TensorId id) {
  if (given(id).reducing) {
    given(id).completed = given(id).reducing->at;
    wait_for(given(id).reducing);
    --reductions_;
    return;
  }
  if (given(id).contributions.empty()) {
    internal_error("nothing gave a gradient to " + step_.name_of(id));
  }
  given(id).completed = sum_of_contributions(id, std::nullopt);
}

Operand StepGradients::completed(TensorId id) const {
  const std::optional<Operand>& gradient =
      given_[step_.micro_batch][static_cast<std::size_t>(id)].completed;
  if (!gradient) {
    internal_error("the gradient of " + step_.name_of(id) + " is asked for, and nothing gave it");
  }
  return *gradient;
}

Operand StepGradients::sum_of_contributions(TensorId id, std::optional<Operand> destination) {
  const Layout& settled = step_.plan.tensors[id].layout;
  const std::string what = step_.name_of(id) + " gradient";
  std::vector<Contribution>& parts = given(id).contributions;
  const std::int64_t count = step_.count(id, settled.at());
  if (parts.size() == 1 && (parts[0].layout.at() != settled.at() || !destination)) {
    return step_.move(id, arrived(parts[0]), parts[0].layout, settled, destination, what, true);
  }
  std::vector<Operand> operands;
  for (Contribution& part : parts) {
    operands.push_back(
        step_.move(id, arrived(part), part.layout, settled, std::nullopt, what, true));
  }
  const Operand sum =
      destination ? *destination : Operand(step_.builder.scratch(count * float32_bytes, what));
  operands.push_back(sum);
  step_.builder.emit(SumSpec{count, static_cast<int>(parts.size())}, operands, what);
  return sum;
}

void StepGradients::complete_variable(int variable) {
  const TensorId id = step_.graph.variables[variable].tensor;
  if (!given(id).uses_at.empty()) {
    if (is_last_micro_batch()) (void)sum_of_contributions(id, step_.gradient_of(variable));
    return;
  }
  if (!step_.form.spans[variable].in_place) {
    if (step_.micro_batch == 0) {
      (void)sum_of_contributions(id, step_.gradient_of(variable));
    } else {
      add_to_place(variable, sum_of_contributions(id, std::nullopt));
    }
  }
  const int bucket = bucket_of_[variable];
  if (bucket >= 0 && --left_in_bucket_[bucket] == 0) {
    start(bucket);
  }
}

void StepGradients::start(int index) {
  const GradientBucket& bucket = step_.form.buckets[index];
  std::string what = "gradients " + step_.graph.variables[bucket.variables.front()].path;
  if (bucket.variables.size() > 1) {
    what += bucket.variables.size() > 2 ? " ... " : ", ";
    what += step_.graph.variables[bucket.variables.back()].path;
  }
  auto [start, wait] = step_.collectives.book_started(
      step_.use_over(bucket.axes, bucket.global_count, what),
      AllReduce{ElementType::float32, Reduction::sum, bucket.count,
                step_.form.groups[bucket.group].home == Home::one_copy});
  const Operand at = step_.gradient_at(bucket.offset);
  step_.builder.emit(std::move(start), {at}, "start " + what);
  go_on(waiting_[index], {std::move(wait), at, "wait for " + what});
}

void StepGradients::wait_for(int bucket) {
  const auto held = [&](int variable) { return step_.form.spans[variable].held; };
  if (std::ranges::none_of(step_.form.buckets[bucket].variables, held)) {
    return;
  }
  if (!waiting_[bucket]) {
    internal_error("a bucket of gradients is waited for that is not under way");
  }
  wait_for(waiting_[bucket]);
}

void StepGradients::go_on(std::optional<Waiting>& place, Waiting waiting) {
  place = std::move(waiting);
  step_.begun();
}

void StepGradients::wait_for(std::optional<Waiting>& place) {
  step_.wait_for(*std::exchange(place, std::nullopt));
}

}  // namespace meshwork
