#include "runtime/graph/step/gradients.h"

#include <algorithm>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/mesh/block_copy.h"
#include "runtime/mesh/lower_windows.h"
#include "runtime/mesh/redistribution.h"

namespace meshwork {

StepGradients::StepGradients(StepContext& step)
    : step_(step),
      bucket_of_(step.graph.variables.size(), -1),
      waiting_(step.form.buckets.size()),
      reducing_(step.graph.tensors.size()) {
  for (std::size_t b = 0; b < step.form.buckets.size(); ++b) {
    left_in_bucket_.push_back(
        static_cast<int>(step.form.buckets[b].variables.size() * step.micro_batches.size()));
    for (const int variable : step.form.buckets[b].variables) {
      bucket_of_[variable] = static_cast<int>(b);
    }
  }
}

void StepGradients::begin() {
  const std::size_t tensors = step_.graph.tensors.size();
  contributions_.assign(tensors, {});
  boxes_.assign(tensors, {});
  completed_.assign(tensors, std::nullopt);
  uses_left_.assign(tensors, 0);
  for (const PlannedOperation& operation : step_.plan.operations) {
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      if (operation.gradient[i]) {
        ++uses_left_[operation.inputs[i]];
      }
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
  for (auto& [layout, operand] : contributions_[id]) {
    if (layout == raw) {
      operand = sum_of_two(id, step_.count(id, raw), operand, gradient);
      return;
    }
  }
  contributions_[id].emplace_back(raw, gradient);
}

void StepGradients::contribute(TensorId id, const Layout& raw, Operand gradient) {
  if (!place_of(id)) {
    goes_to_bucket(id) ? add_to_place(step_.variable_of(id), gradient)
                       : add_contribution(id, raw, gradient);
  }
  use_ended(id);
}

void StepGradients::contribute_box(TensorId id, const Layout& raw, const Windows& windows,
                                   Operand gradient) {
  const MeshShape& mesh = step_.plan.mesh;
  const auto same = std::find_if(boxes_[id].begin(), boxes_[id].end(), [&](const auto& box) {
    return box.raw == raw && same_boxes(box.windows, windows, mesh);
  });
  if (same == boxes_[id].end()) {
    boxes_[id].push_back({raw, windows, gradient});
  } else {
    const std::int64_t count = size_of(box_of(windows, mesh, step_.collectives.rank()));
    same->gradient = sum_of_two(id, count, same->gradient, gradient);
  }
  use_ended(id);
}

void StepGradients::give_back_boxes(TensorId id) {
  for (const BoxGradient& box : boxes_[id]) {
    const Operand block = lower_windows_back(step_.builder, step_.collectives, box.windows,
                                             ElementType::float32, box.gradient, place_of(id),
                                             {step_.phase, step_.name_of(id) + " gradient"});
    if (!place_of(id)) {
      goes_to_bucket(id) ? add_to_place(step_.variable_of(id), block)
                         : add_contribution(id, box.raw, block);
    }
  }
}

void StepGradients::use_ended(TensorId id) {
  if (--uses_left_[id] > 0) {
    return;
  }
  give_back_boxes(id);
  if (const int variable = step_.variable_of(id); variable >= 0) {
    complete_variable(variable);
  }
}

void StepGradients::start_reduction(TensorId id, const Layout& raw, Operand gradient) {
  const bool alone = uses_left_[id] == 1 && contributions_[id].empty() && boxes_[id].empty();
  if (!alone || step_.variable_of(id) >= 0) {
    return;
  }
  const Shape& shape = step_.shapes[id];
  const std::vector<RedistributionStep> steps =
      plan_redistribution(raw, step_.plan.tensors[id].layout, shape, step_.plan.mesh);
  if (steps.size() != 1 || steps.front().kind != StepKind::all_reduce) {
    return;
  }
  const std::string what = step_.name_of(id) + " gradient";
  // Branches may come in turns, so that one begins before another is over.
  const bool others = std::any_of(reducing_.begin(), reducing_.end(),
                                  [](const auto& reduced) { return reduced.has_value(); });
  auto [start, wait] = step_.collectives.book_started(
      step_.use_over(steps.front().axes, element_count(shape), what),
      AllReduce{ElementType::float32, Reduction::sum, step_.count(id, raw)},
      others ? MeshCollectives::UnderWay::beside_others : MeshCollectives::UnderWay::briefly);
  step_.builder.emit(std::move(start), {gradient}, "start " + what);
  go_on(reducing_[id], {std::move(wait), gradient, "wait for " + what});
}

void StepGradients::complete(TensorId id) {
  if (reducing_[id]) {
    completed_[id] = reducing_[id]->at;
    wait_for(reducing_[id]);
    return;
  }
  if (contributions_[id].empty()) {
    internal_error("nothing gave a gradient to " + step_.name_of(id));
  }
  completed_[id] = sum_of_contributions(id, std::nullopt);
}

Operand StepGradients::completed(TensorId id) const {
  if (!completed_[id]) {
    internal_error("the gradient of " + step_.name_of(id) + " is asked for, and nothing gave it");
  }
  return *completed_[id];
}

Operand StepGradients::sum_of_contributions(TensorId id, std::optional<Operand> destination) {
  const Layout& settled = step_.plan.tensors[id].layout;
  const std::string what = step_.name_of(id) + " gradient";
  const ByLayout& parts = contributions_[id];
  const std::int64_t count = step_.count(id, settled);
  if (parts.size() == 1 && (parts[0].first != settled || !destination)) {
    return step_.move(id, parts[0].second, parts[0].first, settled, destination, what, true);
  }
  std::vector<Operand> operands;
  for (const auto& [raw, operand] : parts) {
    operands.push_back(step_.move(id, operand, raw, settled, std::nullopt, what, true));
  }
  const Operand sum =
      destination ? *destination : Operand(step_.builder.scratch(count * float32_bytes, what));
  operands.push_back(sum);
  step_.builder.emit(SumSpec{count, static_cast<int>(parts.size())}, operands, what);
  return sum;
}

void StepGradients::complete_variable(int variable) {
  const TensorId id = step_.graph.variables[variable].tensor;
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
  if (!waiting_[bucket]) {
    internal_error("a bucket of gradients is waited for that is not under way");
  }
  wait_for(waiting_[bucket]);
}

void StepGradients::go_on(std::optional<Waiting>& place, Waiting waiting) {
  place = std::move(waiting);
  if (under_way_++ == 0) {
    step_.builder.follow_kernels(
        [&collectives = step_.collectives] { return collectives.advance(); },
        "gradients on their way");
  }
}

void StepGradients::wait_for(std::optional<Waiting>& place) {
  step_.builder.emit(std::move(place->wait), {place->at}, place->label);
  place.reset();
  if (--under_way_ == 0) {
    step_.builder.follow_kernels();
  }
}

}  // namespace meshwork
