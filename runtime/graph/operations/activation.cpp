#include "runtime/graph/operations/activation.h"

#include "collectives/error.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/identity.h"
#include "runtime/graph/operations/softmax.h"

namespace meshwork {

std::unique_ptr<Operation> make_activation(Activation activation) {
  switch (activation) {
    case Activation::linear:
      return std::make_unique<IdentityOperation>();
    case Activation::softmax:
      return std::make_unique<SoftmaxOperation>();
    default:
      return std::make_unique<ActivationOperation>(activation);
  }
}

ActivationOperation::ActivationOperation(Activation activation, float alpha)
    : activation_(activation), alpha_(alpha) {
  if (activation == Activation::linear || activation == Activation::softmax) {
    internal_error("the activation does not work element by element");
  }
}

void ActivationOperation::forward(Lowering& lowering) const {
  const std::int64_t count = element_count(lowering.local_output_shape());
  lowering.emit(ActivationSpec{activation_, count, alpha_}, {lowering.input(0), lowering.output()});
}

void ActivationOperation::backward(Lowering& lowering) const {
  if (!lowering.needs_gradient(0)) {
    return;
  }
  if (lowering.output_gradient_is_before_activation()) {
    lowering.input_gradient_is_output_gradient(0);
    return;
  }
  const std::int64_t count = element_count(lowering.local_output_shape());
  const Operand value =
      differentiable_from_output(activation_) ? lowering.output() : lowering.input(0);
  lowering.emit(ActivationGradientSpec{.activation = activation_, .count = count, .alpha = alpha_},
                {value, lowering.output_gradient(), lowering.input_gradient(0)});
}

}  // namespace meshwork
