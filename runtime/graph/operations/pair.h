// A function of the elements of two tensors of one shape: product, difference, maximum or minimum.
//
// Rule "bt,bt->bt". Backward: of a product, da = dy * b and db = dy * a; of a difference, dy and -dy;
// of a maximum and a minimum, dy for the one that it took. Of equal elements that is the first, as
// in TensorFlow.
#pragma once

#include <string>

#include "collectives/error.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/pairs.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class PairOperation final : public Operation {
 public:
  explicit PairOperation(PairFunction function) : function_(function) {}

  std::string kind() const override { return std::string(name_of(function_)); }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 2);
    check_equal_shapes(inputs);
    return inputs[0];
  }
  double flops(std::span<const Shape>, const Shape& output) const override {
    return static_cast<double>(element_count(output));
  }
  bool backward_reads(int) const override { return function_ != PairFunction::difference; }

  void forward(Lowering& lowering) const override {
    const std::int64_t count = element_count(lowering.local_output_shape());
    lowering.emit(PairSpec{function_, count},
                  {lowering.input(0), lowering.input(1), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    const std::int64_t count = element_count(lowering.local_output_shape());
    for (const int input : {0, 1}) {
      if (!lowering.needs_gradient(input)) continue;
      const bool first = input == 0;
      if (function_ == PairFunction::product) {
        lowering.emit(PairSpec{PairFunction::product, count},
                      {lowering.output_gradient(), lowering.input(1 - input),
                       lowering.input_gradient(input)});
      } else if (function_ != PairFunction::difference) {
        lowering.emit(PairGradientSpec{function_, first, count},
                      {lowering.input(0), lowering.input(1), lowering.output_gradient(),
                       lowering.input_gradient(input)});
      } else if (first) {
        lowering.input_gradient_is_output_gradient(input);
      } else {
        lowering.emit(AffineSpec{count, -1, 0},
                      {lowering.output_gradient(), lowering.input_gradient(input)});
      }
    }
  }

 private:
  PairFunction function_;
};

}  // namespace meshwork
