#include "runtime/graph/operations/rectifier.h"

#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

Shape RectifierOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, 1);
  return inputs[0];
}

Rule RectifierOperation::rule(std::span<const Shape> inputs) const {
  const std::string letters = dimension_letters(inputs[0].size());
  return {.inputs = {letters}, .output = letters};
}

void RectifierOperation::forward(Lowering& lowering) const {
  const std::int64_t count = element_count(lowering.local_output_shape());
  lowering.emit(RectifySpec{rectifier_, count}, {lowering.input(0), lowering.output()});
}

void RectifierOperation::backward(Lowering& lowering) const {
  if (lowering.needs_gradient(0)) {
    const std::int64_t count = element_count(lowering.local_output_shape());
    lowering.emit(RectifyGradientSpec{rectifier_, count},
                  {lowering.input(0), lowering.output_gradient(), lowering.input_gradient(0)});
  }
}

}  // namespace meshwork
