#include "runtime/graph/operations/add.h"

#include "collectives/error.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

Shape AddOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, static_cast<std::size_t>(inputs_));
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i] != inputs[0]) {
      fail("expected inputs of equal shapes, found {} for input 0 and {} for input {}",
           to_string(inputs[0]), to_string(inputs[i]), i);
    }
  }
  return inputs[0];
}

Rule AddOperation::rule(std::span<const Shape> inputs) const {
  const std::string letters = dimension_letters(inputs[0].size());
  return {.inputs = std::vector<std::string>(inputs.size(), letters), .output = letters};
}

double AddOperation::flops(std::span<const Shape> inputs, const Shape& output) const {
  return static_cast<double>(inputs.size() - 1) * static_cast<double>(element_count(output));
}

void AddOperation::forward(Lowering& lowering) const {
  if (inputs_ == 1) {
    lowering.output_is_input(0);
    return;
  }
  std::vector<Operand> operands;
  for (int input = 0; input < inputs_; ++input) {
    operands.push_back(lowering.input(input));
  }
  operands.push_back(lowering.output());
  lowering.emit(SumSpec{element_count(lowering.local_output_shape()), inputs_}, operands);
}

void AddOperation::backward(Lowering& lowering) const {
  for (int input = 0; input < inputs_; ++input) {
    if (lowering.needs_gradient(input)) {
      lowering.input_gradient_is_output_gradient(input);
    }
  }
}

bool AddOperation::backward_reads(int) const {
  return false;
}

}  // namespace meshwork
