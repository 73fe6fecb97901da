#include "runtime/graph/operations/identity.h"

#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

Shape IdentityOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, 1);
  return inputs[0];
}

Rule IdentityOperation::rule(std::span<const Shape> inputs) const {
  const std::string letters = dimension_letters(inputs[0].size());
  return {.inputs = {letters}, .output = letters};
}

double IdentityOperation::flops(std::span<const Shape>, const Shape&) const {
  return 0;
}

void IdentityOperation::forward(Lowering& lowering) const {
  lowering.output_is_input(0);
}

void IdentityOperation::backward(Lowering& lowering) const {
  if (lowering.needs_gradient(0)) {
    lowering.input_gradient_is_output_gradient(0);
  }
}

bool IdentityOperation::backward_reads(int) const {
  return false;
}

}  // namespace meshwork
