// Dropout: in training each element is kept with probability 1 - rate and divided by that, else 0.
//
// Rule "bt->bt": which elements are kept follows from their global indices, so that it is the same
// on every mesh, and the same again in backward. Outside training and at rate 0 nothing moves.
//
// Behind a relu that is joined to a product, a convolution or a bias, it is joined too
// (epilogue.h): it drops in place, and its gradient and that of relu are one pass over what it
// gave. Elsewhere backward draws the numbers again, which takes less than to keep them.
#pragma once

#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"

namespace meshwork {

class DropoutOperation final : public Operation {
 public:
  explicit DropoutOperation(float rate) : rate_(rate) {}

  std::string kind() const override { return "dropout"; }
  bool backward_reads(int) const override { return false; }
  // At rate 1 nothing is kept, and 1 - rate divides nothing.
  Fusible fusible() const override {
    return {.epilogue = {.dropout = rate_}, .is_epilogue = rate_ < 1};
  }

  void forward(Lowering& lowering) const override {
    if (drops(lowering)) {
      lowering.emit(kernel(lowering),
                    {lowering.input(0), lowering.step_scalars(), lowering.output()});
    } else {
      lowering.output_is_input(0);
    }
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) {
      return;
    }
    if (drops(lowering)) {
      lowering.emit(kernel(lowering), {lowering.output_gradient(), lowering.step_scalars(),
                                       lowering.input_gradient(0)});
    } else {
      lowering.input_gradient_is_output_gradient(0);
    }
  }

 private:
  bool drops(const Lowering& lowering) const { return lowering.training() && rate_ > 0; }
  DropoutSpec kernel(const Lowering& lowering) const {
    const auto [shape, block] = lowering.output_in_batch();
    return {rate_, lowering.random_key(), shape, block};
  }

  float rate_;
};

}  // namespace meshwork
