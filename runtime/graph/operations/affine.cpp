#include "runtime/graph/operations/affine.h"

#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

Shape AffineOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, 1);
  return inputs[0];
}

Rule AffineOperation::rule(std::span<const Shape> inputs) const {
  const std::string letters = dimension_letters(inputs[0].size());
  return {.inputs = {letters}, .output = letters};
}

double AffineOperation::flops(std::span<const Shape>, const Shape& output) const {
  return 2.0 * static_cast<double>(element_count(output));
}

void AffineOperation::forward(Lowering& lowering) const {
  if (lowering.scale_input(0, scale_, offset_)) {
    lowering.output_is_input(0);
    return;
  }
  const std::int64_t count = element_count(lowering.local_output_shape());
  lowering.emit(AffineSpec{count, scale_, offset_}, {lowering.input(0), lowering.output()});
}

void AffineOperation::backward(Lowering& lowering) const {
  if (lowering.needs_gradient(0)) {
    const std::int64_t count = element_count(lowering.local_output_shape());
    lowering.emit(AffineSpec{count, scale_, 0},
                  {lowering.output_gradient(), lowering.input_gradient(0)});
  }
}

bool AffineOperation::backward_reads(int) const {
  return false;
}

}  // namespace meshwork
