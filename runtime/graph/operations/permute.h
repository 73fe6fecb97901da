// Permute: the dimensions of a tensor in another order.
//
// Rule "btuv->bvtu" and the like: every dimension keeps its letter, so a split goes through.
#pragma once

#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/mesh/block_copy.h"

namespace meshwork {

class PermuteOperation final : public Operation {
 public:
  /// Dimension d of the output is dimension `order[d]` of the input.
  explicit PermuteOperation(std::vector<int> order) : order_(std::move(order)) {}

  std::string kind() const override { return "permute"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    if (inputs[0].size() != order_.size()) {
      fail("expected an input of {} dimensions, found shape {}", order_.size(),
           to_string(inputs[0]));
    }
    return ordered(inputs[0]);
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size());
    return {.inputs = {letters}, .output = ordered(letters)};
  }
  double flops(std::span<const Shape>, const Shape&) const override { return 0; }
  bool backward_reads(int) const override { return false; }
  ValueKind output_values() const override { return ValueKind::as_input; }

  void forward(Lowering& lowering) const override {
    lowering.emit(CopySpec{ElementType::float32, {moved(lowering)}},
                  {lowering.input(0), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (lowering.needs_gradient(0)) {
      CopyRegion region = moved(lowering);
      std::swap(region.source_strides, region.destination_strides);
      lowering.emit(CopySpec{ElementType::float32, {std::move(region)}},
                    {lowering.output_gradient(), lowering.input_gradient(0)});
    }
  }

 private:
  template <class ByDimension>
  ByDimension ordered(const ByDimension& of_input) const {
    ByDimension of_output;
    for (const int d : order_) {
      of_output.push_back(of_input[d]);
    }
    return of_output;
  }

  // The whole input, walked in the order of the output.
  CopyRegion moved(const Lowering& lowering) const {
    const Shape output = lowering.local_output_shape();
    return {.extents = output,
            .source_strides = ordered(strides_of(lowering.local_shape(0))),
            .destination_strides = strides_of(output)};
  }

  std::vector<int> order_;
};

}  // namespace meshwork
