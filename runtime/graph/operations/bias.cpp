#include "runtime/graph/operations/bias.h"

#include "collectives/error.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/identity.h"

namespace meshwork {
namespace {

constexpr int bias = 1;

}  // namespace

BiasOperation::BiasOperation(Activation activation) : activation_(activation) {
  if (!differentiable_from_output(activation)) {
    internal_error("a bias cannot be joined with this activation");
  }
}

std::string BiasOperation::kind() const {
  return activation_ == Activation::linear ? "bias" : fmt::format("bias+{}", name_of(activation_));
}

Shape BiasOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, 2);
  if (inputs[0].empty() || inputs[bias] != Shape{inputs[0].back()}) {
    fail("an input of shape {} needs a bias as long as its last dimension, found {}",
         to_string(inputs[0]), to_string(inputs[bias]));
  }
  return inputs[0];
}

Rule BiasOperation::rule(std::span<const Shape> inputs) const {
  const std::string letters = dimension_letters(inputs[0].size(), 'o');
  return {.inputs = {letters, "o"}, .output = letters};
}

void BiasOperation::forward(Lowering& lowering) const {
  const Shape y = lowering.local_output_shape();
  lowering.emit(BiasAddSpec{rows_of(y), columns_of(y), activation_},
                {lowering.input(0), lowering.input(bias), lowering.output()});
}

void BiasOperation::backward(Lowering& lowering) const {
  const Shape y = lowering.local_output_shape();
  const bool input_wanted = lowering.needs_gradient(0);
  const bool bias_wanted = lowering.needs_gradient(bias);
  if (!input_wanted && !bias_wanted) {
    return;
  }
  Operand dz = lowering.output_gradient();  // the gradient before the activation, which is dx
  if (activation_ != Activation::linear) {
    dz = input_wanted ? lowering.input_gradient(0)
                      : lowering.scratch("gradient before the activation", element_count(y) * 4);
    lowering.emit(ActivationGradientSpec{activation_, element_count(y)},
                  {lowering.output(), lowering.output_gradient(), dz});
  } else if (input_wanted) {
    lowering.input_gradient_is_output_gradient(0);
  }
  if (bias_wanted) {
    lowering.emit(ColumnSumSpec{rows_of(y), columns_of(y)}, {dz, lowering.input_gradient(bias)});
  }
}

bool BiasOperation::backward_reads(int) const {
  return false;
}

std::unique_ptr<Operation> BiasOperation::fused_with(const Operation& next, int position) const {
  if (dynamic_cast<const IdentityOperation*>(&next)) {
    return std::make_unique<BiasOperation>(activation_);
  }
  const auto* applied = dynamic_cast<const ActivationOperation*>(&next);
  if (position != 0 || activation_ != Activation::linear || !applied ||
      !differentiable_from_output(applied->activation())) {
    return nullptr;
  }
  return std::make_unique<BiasOperation>(applied->activation());
}

}  // namespace meshwork
