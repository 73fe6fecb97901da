#include "runtime/graph/epilogue.h"

#include "collectives/error.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/activation.h"

namespace meshwork {

std::optional<Epilogue> Epilogue::then(const Epilogue& next) const {
  if (next.empty()) {
    return *this;
  }
  // First the one bias, then the one activation, then, behind relu, the dropout.
  const bool activated = activation != Activation::linear;
  const bool activates = next.activation != Activation::linear;
  if (dropout > 0 || (next.bias && (bias || activated)) || (activated && activates)) {
    return std::nullopt;
  }
  const Epilogue all{bias || next.bias, activated ? activation : next.activation, next.dropout};
  return all.dropout > 0 && all.activation != Activation::relu ? std::nullopt : std::optional(all);
}

std::string Epilogue::behind(std::string_view kind) const {
  std::string text(kind);
  if (bias) {
    text += "+bias";
  }
  if (activation != Activation::linear) {
    text += fmt::format("+{}", name_of(activation));
  }
  if (dropout > 0) {
    text += "+dropout";
  }
  return text;
}

void Epilogue::check_bias(const Shape& output, const Shape& found) {
  if (found != Shape{output.back()}) {
    fail("expected a bias of shape {}, found {}", to_string(Shape{output.back()}),
         to_string(found));
  }
}

void Epilogue::check(std::string_view what) const {
  if (!differentiable_from_output(activation)) {
    internal_error(fmt::format("{} cannot be joined with {}", what, name_of(activation)));
  }
}

void Epilogue::drop(Lowering& lowering) const {
  if (dropout > 0 && lowering.training()) {
    const Operand y = lowering.output();
    const auto [shape, block] = lowering.output_in_batch();
    lowering.emit(DropoutSpec{dropout, lowering.random_key(), shape, block},
                  {y, lowering.step_scalars(), y});
  }
}

ActivationGradientSpec Epilogue::gradient(std::int64_t count) const {
  return {.activation = activation, .count = count, .divisor = 1 - dropout};
}

bool Epilogue::gradient_is_before(const Lowering& lowering) const {
  return activation == Activation::linear || lowering.output_gradient_is_before_activation();
}

Operand Epilogue::gradient_before(Lowering& lowering, std::int64_t count) const {
  if (gradient_is_before(lowering)) {
    return lowering.output_gradient();
  }
  const Operand dz = lowering.scratch("gradient before the activation", count);
  lowering.emit(gradient(count), {lowering.output(), lowering.output_gradient(), dz});
  return dz;
}

}  // namespace meshwork
