#include "runtime/graph/operations/dropout.h"

#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

Shape DropoutOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, 1);
  return inputs[0];
}

Rule DropoutOperation::rule(std::span<const Shape> inputs) const {
  const std::string letters = dimension_letters(inputs[0].size());
  return {.inputs = {letters}, .output = letters};
}

bool DropoutOperation::drops(const Lowering& lowering) const {
  return lowering.training() && rate_ > 0;
}

void DropoutOperation::forward(Lowering& lowering) const {
  if (!drops(lowering)) {
    lowering.output_is_input(0);
    return;
  }
  lowering.emit(DropoutSpec{rate_, lowering.random_key(), lowering.global_output_shape(),
                            lowering.output_block()},
                {lowering.input(0), lowering.step_scalars(), lowering.output()});
}

void DropoutOperation::backward(Lowering& lowering) const {
  if (!lowering.needs_gradient(0)) {
    return;
  }
  if (!drops(lowering)) {
    lowering.input_gradient_is_output_gradient(0);
    return;
  }
  lowering.emit(DropoutSpec{rate_, lowering.random_key(), lowering.global_output_shape(),
                            lowering.output_block()},
                {lowering.output_gradient(), lowering.step_scalars(), lowering.input_gradient(0)});
}

bool DropoutOperation::backward_reads(int) const {
  return false;
}

// Nothing is kept at rate 1, and 1 - rate divides nothing.
std::optional<Epilogue> DropoutOperation::as_epilogue() const {
  return rate_ < 1 ? std::optional(Epilogue{.dropout = rate_}) : std::nullopt;
}

}  // namespace meshwork
