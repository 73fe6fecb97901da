#include "runtime/graph/step/sums.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/norms.h"

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
  has_penalty_ = std::any_of(
      step.graph.variables.begin(), step.graph.variables.end(), [](const Variable& variable) {
        return variable.options.trainable && variable.options.regularizer.active();
      });
  has_gradient_norm_ = step.training() && step.request.update->reports_norm;
  sums_ = step.builder.scratch(count() * element_bytes(ElementType::float64), "sums");
  step.builder.keep(sums_);
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
  return place_of(
      *std::find_if(own_.begin(), own_.end(), [id](const Sum& sum) { return sum.tensor == id; }));
}

Operand StepSums::place_of(const Sum& sum) const {
  return {sums_, sum.first * element_bytes(ElementType::float64)};
}

void StepSums::settle() {
  std::set<Axis> all;
  std::map<TensorId, std::vector<Axis>> partial;
  for (const PlannedOperation& planned : step_.plan.operations) {
    if (step_.is_sum(planned.output)) {
      partial[planned.output] = planned.natural.partial;
      all.insert(planned.natural.partial.begin(), planned.natural.partial.end());
    }
  }
  if (has_penalty_ || has_gradient_norm_) {
    const std::vector<Axis> axes = step_.axes_of_trainable_variables();
    all.insert(axes.begin(), axes.end());
  }
  axes_.assign(all.begin(), all.end());
  for (const Sum& sum : own_) {
    if (!step_.counts(axes_, partial[sum.tensor])) {
      step_.builder.emit(ZeroSpec{sum.count * element_bytes(ElementType::float64)}, {place_of(sum)},
                         step_.name_of(sum.tensor));
    }
  }
  if (has_penalty_) {
    book_penalty();
  }
}

void StepSums::book_penalty() {
  std::vector<double> factors;
  std::vector<std::pair<int, int>> terms;  // variable, power
  for (const ParameterSpan& span : step_.form.spans) {
    const Regularizer& regularizer = step_.graph.variables[span.variable].options.regularizer;
    if (!span.trainable || !step_.counts(axes_, span.layout.splitting_axes())) {
      continue;
    }
    if (regularizer.l1 != 0) {
      terms.emplace_back(span.variable, 1);
      factors.push_back(regularizer.l1);
    }
    if (regularizer.l2 != 0) {
      terms.emplace_back(span.variable, 2);
      factors.push_back(regularizer.l2);
    }
  }
  const std::int64_t bytes = element_bytes(ElementType::float64);
  const Buffer powers =
      step_.builder.scratch(static_cast<std::int64_t>(terms.size()) * bytes, "penalty terms");
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto [variable, power] = terms[i];
    step_.builder.emit(
        PowerSumSpec{step_.form.spans[variable].count, power},
        {step_.value_of(variable), Operand{powers, static_cast<std::int64_t>(i) * bytes}},
        step_.graph.variables[variable].path + " penalty");
  }
  const Operand place{sums_, own_count() * bytes};
  step_.builder.emit(WeightedSumSpec{std::move(factors)}, {powers, place}, "penalty");
}

void StepSums::reduce() {
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
