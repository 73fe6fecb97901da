#include "runtime/graph/step/whole_penalty.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/kernels/elementwise.h"

namespace meshwork {
namespace {

class StepBooking final : public WholeBooking {
 public:
  StepBooking(StepContext& step, const Variable& variable)
      : step_(step), label_(variable.path + " penalty") {}

  [[nodiscard]] const std::string& label() const { return label_; }
  Operand scratch(std::int64_t count, ElementType type) override {
    return step_.builder.scratch(count * element_bytes(type), label_);
  }
  void emit(const KernelSpec& spec, std::vector<Operand> operands) override {
    step_.builder.emit(spec, std::move(operands), label_);
  }

 private:
  StepContext& step_;
  std::string label_;
};

Layout whole_layout(const Variable& variable) {
  return Layout::replicated(variable.options.shape.size());
}

}  // namespace

WholePenalty book_whole_penalty(StepContext& step, const ParameterSpan& span) {
  const Variable& variable = step.graph.variables[span.variable];
  StepBooking booking(step, variable);
  const Operand values = step.move(variable.tensor, step.value_of(span.variable), span.layout,
                                   whole_layout(variable), std::nullopt, booking.label());
  return variable.options.regularizer.whole->penalty(booking, variable.options.shape, values);
}

void book_derivative_of(StepContext& step, const ParameterSpan& span, const WholePenalty& penalty) {
  const Variable& variable = step.graph.variables[span.variable];
  StepBooking booking(step, variable);
  const Operand derivative =
      variable.options.regularizer.whole->derivative(booking, variable.options.shape, penalty);
  const Operand own = step.move(variable.tensor, derivative, whole_layout(variable), span.layout,
                                std::nullopt, booking.label());
  const Operand gradient = step.gradient_of(span.variable);
  booking.emit(SumSpec{span.count, 2}, {gradient, own, gradient});
}

}  // namespace meshwork
