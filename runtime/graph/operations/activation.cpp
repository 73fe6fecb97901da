#include "runtime/graph/operations/activation.h"

#include "collectives/error.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/identity.h"
#include "runtime/graph/operations/softmax.h"

namespace meshwork {

bool differentiable_from_output(Activation activation) {
  return activation == Activation::linear || activation == Activation::relu ||
         activation == Activation::sigmoid || activation == Activation::tanh;
}

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

ActivationOperation::ActivationOperation(Activation activation) : activation_(activation) {
  if (activation == Activation::linear || activation == Activation::softmax) {
    internal_error("the activation does not work element by element");
  }
}

std::string ActivationOperation::kind() const {
  return std::string(name_of(activation_));
}

Shape ActivationOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, 1);
  return inputs[0];
}

Rule ActivationOperation::rule(std::span<const Shape> inputs) const {
  const std::string letters = dimension_letters(inputs[0].size());
  return {.inputs = {letters}, .output = letters};
}

void ActivationOperation::forward(Lowering& lowering) const {
  const std::int64_t count = element_count(lowering.local_output_shape());
  lowering.emit(ActivationSpec{activation_, count}, {lowering.input(0), lowering.output()});
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
  lowering.emit(ActivationGradientSpec{activation_, count},
                {value, lowering.output_gradient(), lowering.input_gradient(0)});
}

bool ActivationOperation::backward_reads(int) const {
  return !differentiable_from_output(activation_);
}

Activation ActivationOperation::ends_in() const {
  return activation_;
}

std::optional<Epilogue> ActivationOperation::as_epilogue() const {
  return differentiable_from_output(activation_) ? std::optional(Epilogue{false, activation_})
                                                 : std::nullopt;
}

}  // namespace meshwork
