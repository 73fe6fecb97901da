// The sum of tensors of one shape. Rule "bt,bt->bt"; the gradient of each is the output's.
#pragma once

#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class AddOperation final : public Operation {
 public:
  explicit AddOperation(int inputs) : inputs_(inputs) {}

  std::string kind() const override { return "add"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, static_cast<std::size_t>(inputs_));
    check_equal_shapes(inputs);
    return inputs[0];
  }
  double flops(std::span<const Shape> inputs, const Shape& output) const override {
    return static_cast<double>(inputs.size() - 1) * static_cast<double>(element_count(output));
  }
  bool backward_reads(int) const override { return false; }

  void forward(Lowering& lowering) const override {
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
  void backward(Lowering& lowering) const override {
    for (int input = 0; input < inputs_; ++input) {
      if (lowering.needs_gradient(input)) {
        lowering.input_gradient_is_output_gradient(input);
      }
    }
  }

 private:
  int inputs_;
};

}  // namespace meshwork
