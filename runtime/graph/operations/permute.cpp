#include "runtime/graph/operations/permute.h"

#include "collectives/error.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

Shape PermuteOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, 1);
  if (inputs[0].size() != order_.size()) {
    fail("expected an input of {} dimensions, found shape {}", order_.size(), to_string(inputs[0]));
  }
  Shape output;
  for (const int d : order_) {
    output.push_back(inputs[0][d]);
  }
  return output;
}

Rule PermuteOperation::rule(std::span<const Shape> inputs) const {
  const std::string letters = dimension_letters(inputs[0].size());
  Rule rule{.inputs = {letters}};
  for (const int d : order_) {
    rule.output += letters[d];
  }
  return rule;
}

double PermuteOperation::flops(std::span<const Shape>, const Shape&) const {
  return 0;
}

// The whole input, walked in the order of the output.
CopyRegion PermuteOperation::moved(const Lowering& lowering) const {
  const Shape x = lowering.local_shape(0);
  std::vector<std::int64_t> strides(x.size(), 1);
  for (std::size_t d = x.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * x[d];
  }
  CopyRegion region{.extents = lowering.local_output_shape()};
  std::int64_t stride = 1;
  for (std::size_t d = order_.size(); d-- > 0;) {
    region.source_strides.insert(region.source_strides.begin(), strides[order_[d]]);
    region.destination_strides.insert(region.destination_strides.begin(), stride);
    stride *= region.extents[d];
  }
  return region;
}

void PermuteOperation::forward(Lowering& lowering) const {
  lowering.emit(CopySpec{ElementType::float32, {moved(lowering)}},
                {lowering.input(0), lowering.output()});
}

void PermuteOperation::backward(Lowering& lowering) const {
  if (!lowering.needs_gradient(0)) {
    return;
  }
  CopyRegion region = moved(lowering);
  std::swap(region.source_strides, region.destination_strides);
  lowering.emit(CopySpec{ElementType::float32, {std::move(region)}},
                {lowering.output_gradient(), lowering.input_gradient(0)});
}

bool PermuteOperation::backward_reads(int) const {
  return false;
}

}  // namespace meshwork
