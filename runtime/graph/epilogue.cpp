#include "runtime/graph/epilogue.h"

#include "collectives/error.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/activation.h"

namespace meshwork {

std::optional<Epilogue> Epilogue::then(const Operation& next, int position) const {
  if (position != 0) {
    return std::nullopt;  // it would be the bias itself
  }
  const std::optional<Epilogue> more = next.as_epilogue();
  if (!more || more->empty()) {
    return more ? std::optional(*this) : std::nullopt;
  }
  // The activation comes last, and there is one bias.
  if (activation != Activation::linear || (bias && more->bias)) {
    return std::nullopt;
  }
  return Epilogue{bias || more->bias, more->activation};
}

std::string Epilogue::behind(std::string_view kind) const {
  std::string text(kind);
  if (bias) {
    text += "+bias";
  }
  if (activation != Activation::linear) {
    text += fmt::format("+{}", name_of(activation));
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

Operand Epilogue::gradient_before(Lowering& lowering, std::int64_t count) const {
  if (activation == Activation::linear || lowering.output_gradient_is_before_activation()) {
    return lowering.output_gradient();
  }
  const Operand dz = lowering.scratch("gradient before the activation", count * 4);
  lowering.emit(ActivationGradientSpec{activation, count},
                {lowering.output(), lowering.output_gradient(), dz});
  return dz;
}

}  // namespace meshwork
