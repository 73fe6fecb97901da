#include "runtime/graph/step/update.h"

#include <optional>
#include <vector>

namespace meshwork {
namespace {

void finish_gradients(StepContext& step) {
  for (std::size_t v = 0; v < step.graph.variables.size(); ++v) {
    const Variable& variable = step.graph.variables[v];
    if (!step.form.spans[v].updated) {
      continue;
    }
    const int index = static_cast<int>(v);
    const std::int64_t count = step.form.spans[v].count;
    // Only its penalty counts, and backward has left here what the last step did.
    if (!step.plan.tensors[variable.tensor].gradient) {
      step.builder.emit(ZeroSpec{count * element_bytes(ElementType::float32)},
                        {step.gradient_of(index)}, variable.path + " gradient");
    }
    const Regularizer& regularizer = variable.options.regularizer;
    if (regularizer.active()) {
      step.builder.emit(PenaltyGradientSpec{count, regularizer.l1, regularizer.l2},
                        {step.value_of(index), step.gradient_of(index)},
                        variable.path + " penalty");
    }
  }
}

// The squared norm of every variable that is updated, in the order of the spans.
struct SquaredNorms {
  std::vector<const ParameterSpan*> spans;
  Buffer at;  // float64

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(spans.size()); }
  [[nodiscard]] Operand of(std::int64_t index) const {
    return {at, index * element_bytes(ElementType::float64)};
  }
};

SquaredNorms book_squared_norms(StepContext& step) {
  SquaredNorms squares;
  for (const ParameterSpan& span : step.form.spans) {
    if (span.updated) {
      squares.spans.push_back(&span);
    }
  }
  const std::int64_t count = squares.count();
  const std::int64_t bytes = element_bytes(ElementType::float64);
  const std::vector<Axis> axes = step.axes_of_trainable_variables();
  squares.at = step.builder.scratch(count * bytes, "squared norms");
  for (std::int64_t i = 0; i < count; ++i) {
    const ParameterSpan& span = *squares.spans[i];
    const std::string label = step.graph.variables[span.variable].path + " norm";
    if (step.counts(axes, span.layout.splitting_axes())) {
      step.builder.emit(PowerSumSpec{span.count, 2},
                        {step.gradient_of(span.variable), squares.of(i)}, label);
    } else {
      step.builder.emit(ZeroSpec{bytes}, {squares.of(i)}, label);
    }
  }
  if (!axes.empty()) {
    step.builder.emit(step.collectives.all_reduce(
                          step.all_reduce_record(axes, ElementType::float64, Reduction::sum, count,
                                                 count, "squared norms of gradients"),
                          count),
                      {squares.at}, "squared norms");
  }
  return squares;
}

void clip_by_norm(StepContext& step, float clip) {
  const SquaredNorms squares = book_squared_norms(step);
  for (std::int64_t i = 0; i < squares.count(); ++i) {
    const ParameterSpan& span = *squares.spans[i];
    const std::string label = "clip " + step.graph.variables[span.variable].path;
    const Buffer factor = step.builder.scratch(element_bytes(ElementType::float32), label);
    step.builder.emit(ClipFactorSpec{clip, false}, {squares.of(i), factor}, label);
    step.builder.emit(ScaleBySpec{span.count}, {factor, step.gradient_of(span.variable)}, label);
  }
}

// The factor for all gradients, which the fused update applies.
Operand global_clip_factor(StepContext& step, float clip) {
  const SquaredNorms squares = book_squared_norms(step);
  const Buffer total =
      step.builder.scratch(element_bytes(ElementType::float64), "squared global norm");
  const Buffer factor = step.builder.scratch(element_bytes(ElementType::float32), "clip factor");
  step.builder.emit(WeightedSumSpec{std::vector<double>(squares.spans.size(), 1.0)},
                    {squares.at, total}, "squared global norm");
  step.builder.emit(ClipFactorSpec{clip, true}, {total, factor}, "clip by global norm");
  return factor;
}

std::optional<Operand> clip_gradients(StepContext& step) {
  const UpdateRule& rule = *step.request.update;
  switch (rule.clipping) {
    case Clipping::none:
      break;
    case Clipping::value:
      step.builder.emit(ClampSpec{step.form.updated_count, rule.clip}, {step.gradients},
                        "clip by value");
      break;
    case Clipping::norm:
      clip_by_norm(step, rule.clip);
      break;
    case Clipping::global_norm:
      return global_clip_factor(step, rule.clip);
  }
  return std::nullopt;
}

}  // namespace

void update_parameters(StepContext& step) {
  finish_gradients(step);
  const std::optional<Operand> factor = clip_gradients(step);
  std::vector<Operand> operands{step.scalars};
  if (factor) {
    operands.push_back(*factor);
  }
  operands.push_back(step.gradients);
  operands.push_back(step.values);
  const Parameters* parameters = step.request.parameters;
  for (int slot = 0; slot < step.request.update->slots; ++slot) {
    operands.push_back(
        step.builder.external(parameters ? parameters->slot(slot) : nullptr,
                              step.form.trainable_count * element_bytes(ElementType::float32),
                              "optimizer slot " + std::to_string(slot)));
  }
  step.builder.emit(step.request.update->kernel(step.form.updated_count, factor.has_value()),
                    operands, "update");
}

}  // namespace meshwork
