#include "runtime/graph/step/sums.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/overlap.h"

namespace meshwork {

StepSums::StepSums(StepContext& step) : step_(step) {
  if (step.request.mode == Mode::predict) {
    return;
  }
  for (const PlannedOperation& operation : step.plan.operations) {
    if (step.is_sum(operation.output)) {
      const GraphOperation& of =
          step.graph.operations[step.graph.tensors[operation.output].producer];
      own_.push_back({operation.output, own_count(), of.operation->sum_count()});
    }
  }
  std::int64_t penalized = 0;  // terms of variables
  for (const Variable& variable : step.graph.variables) {
    const Regularizer& regularizer = variable.options.regularizer;
    if (!variable.options.trainable) continue;
    penalized += std::ssize(regularizer.sums) + (regularizer.whole ? 1 : 0);
  }
  const auto penalties = std::ranges::count_if(
      step.plan.operations,
      [](const PlannedOperation& planned) { return planned.operation->penalty().active(); });
  const std::int64_t batches = std::ssize(step.micro_batches);
  has_penalty_ = penalized + penalties > 0;
  has_gradient_norm_ = step.training() && step.request.update->reports_norm;
  const std::int64_t bytes = element_bytes(ElementType::float64);
  sums_ = step.builder.scratch(count() * bytes, "sums");
  step.builder.keep(sums_);
  if (batches > 1) {
    parts_ = step.builder.scratch(batches * own_count() * bytes, "sums of micro-batches");
  }
  if (!has_penalty_) {
    return;
  }
  // Of an operation l1 and l2.
  powers_ = step.builder.scratch((penalized + 2 * batches * penalties) * bytes, "penalty terms");
}

std::int64_t StepSums::count() const {
  return own_count() + (has_penalty_ ? 1 : 0) + (has_gradient_norm_ ? 1 : 0);
}

std::int64_t StepSums::own_count() const {
  return own_.empty() ? 0 : own_.back().first + own_.back().count;
}

std::vector<TensorId> StepSums::tensors() const {
  std::vector<TensorId> tensors;
  for (const Sum& sum : own_) {
    tensors.push_back(sum.tensor);
  }
  return tensors;
}

Operand StepSums::place_of_gradient_norm() const {
  return {sums_, (count() - 1) * element_bytes(ElementType::float64)};
}

Operand StepSums::place_of(TensorId id) const {
  return place_of(sum_of(id));
}

const StepSums::Sum& StepSums::sum_of(TensorId id) const {
  return *std::ranges::find(own_, id, &Sum::tensor);
}

Operand StepSums::place_of(const Sum& sum) const {
  if (!parts_.exists()) return folded(sum);
  const auto batch = static_cast<std::int64_t>(step_.micro_batch);
  return Operand(parts_).after(sum.first * std::ssize(step_.micro_batches) + batch * sum.count,
                               ElementType::float64);
}

void StepSums::book_fold(const Sum& sum) {
  if (!parts_.exists()) return;
  const std::int64_t batches = std::ssize(step_.micro_batches);
  step_.builder.emit(
      FoldedSumsSpec{batches, sum.count},
      {Operand(parts_).after(sum.first * batches, ElementType::float64), folded(sum)},
      "sums of micro-batches");
}

Operand StepSums::fold(TensorId id) {
  const Sum& sum = sum_of(id);
  book_fold(sum);
  return folded(sum);
}

void StepSums::penalize(const PlannedOperation& planned, const Operand& value) {
  const ActivityPenalty penalty = planned.operation->penalty();
  if (!penalty.active()) {
    return;
  }
  const Layout& layout = step_.plan.tensors[planned.output].layout;
  const auto rows = static_cast<double>(step_.shapes[planned.output].front());
  const double share = rows > 0 ? step_.share_of_batch() / rows : 0;
  const std::int64_t count = step_.count(planned.output, layout);
  for (const auto& [factor, power] : {std::pair(penalty.l1, 1), std::pair(penalty.l2, 2)}) {
    activity_.push_back({share * static_cast<double>(factor), PowerSumSpec{count, power}, value,
                         layout, planned.path});
  }
}

void StepSums::find_axes() {
  std::set<Axis> all;
  for (const PlannedOperation& planned : step_.plan.operations) {
    if (step_.is_sum(planned.output)) {
      all.insert(planned.natural.partial.begin(), planned.natural.partial.end());
    }
  }
  if (has_penalty_ || has_gradient_norm_) {
    const std::vector<Axis> axes = step_.axes_of_trainable_variables();
    all.insert(axes.begin(), axes.end());
  }
  // Of all operations, whoever runs them: the reduction is of all ranks.
  for (const PlannedOperation& planned : step_.plan.operations) {
    if (!planned.operation->penalty().active()) continue;
    const std::vector<Axis> split_by = step_.plan.tensors[planned.output].layout.splitting_axes();
    all.insert(split_by.begin(), split_by.end());
  }
  all.insert(step_.plan.placing.begin(), step_.plan.placing.end());
  axes_.assign(all.begin(), all.end());
}

void StepSums::settle() {
  if (step_.micro_batch == 0) {
    find_axes();
  }
  for (const Sum& sum : own_) {
    if (!is_early(sum.tensor)) zero_unless_counted(sum, place_of(sum));
  }
  if (has_penalty_) {
    book_penalties();
  }
}

void StepSums::zero_unless_counted(const Sum& sum, Operand place) {
  if (step_.counts(axes_, step_.plan.tensors[sum.tensor].layout)) return;
  step_.builder.emit(ZeroSpec{sum.count * element_bytes(ElementType::float64)}, {place},
                     step_.name_of(sum.tensor));
}

void StepSums::book_penalties() {
  std::vector<Penalized> all;
  for (const ParameterSpan& span : step_.form.spans) {
    if (step_.micro_batch > 0) {
      break;
    }
    const Variable& variable = step_.graph.variables[span.variable];
    if (!span.trainable || !span.held) {
      continue;
    }
    const Regularizer& regularizer = variable.options.regularizer;
    for (const PenaltySum& sum : regularizer.sums) {
      all.push_back({sum.factor, sum.kernel(span.count), step_.value_of(span.variable), span.layout,
                     variable.path});
    }
    if (regularizer.whole) {
      const WholePenalty of = book_whole_penalty(step_, span);
      whole_.emplace(span.variable, of);
      all.push_back({of.factor, of.sum, of.terms, Layout{}.at(span.layout.places), variable.path});
    }
  }
  all.insert(all.end(), activity_.begin(), activity_.end());
  activity_.clear();
  for (const Penalized& one : all) {
    if (one.factor == 0 || !step_.counts(axes_, one.layout)) {
      continue;
    }
    const Operand term = Operand(powers_).after(std::ssize(factors_), ElementType::float64);
    step_.builder.emit(one.sum, {one.values, term}, one.path + " penalty");
    factors_.push_back(one.factor);
  }
}

void StepSums::reduce() {
  for (const Sum& sum : own_) {
    if (is_early(sum.tensor)) {
      zero_unless_counted(sum, folded(sum));
    } else {
      book_fold(sum);
    }
  }
  if (has_penalty_) {
    step_.builder.emit(WeightedSumSpec{factors_},
                       {powers_, Operand(sums_).after(own_count(), ElementType::float64)},
                       "penalty");
  }
  if (axes_.empty() || count() == 0) {
    return;
  }
  step_.builder.emit(
      step_.collectives.book(step_.use_over(axes_, count(),
                                            has_gradient_norm_ ? "sums of losses and metrics, norm"
                                                               : "sums of losses and metrics"),
                             AllReduce{ElementType::float64, Reduction::sum, count()}),
      {sums_}, "sums");
}

}  // namespace meshwork
