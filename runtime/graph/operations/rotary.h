// Vectors turned by their places in a sequence: rotary position embedding of x (batch, places, ...,
// length).
//
// Rule "bte->bte", "bthe->bthe", and e is whole: where a place is follows from the block. Backward
// turns the other way.
#pragma once

#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/kernels/rotary.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class RotaryOperation final : public Operation {
 public:
  RotaryOperation(double wavelength, double scaling) : wavelength_(wavelength), scaling_(scaling) {}

  std::string kind() const override { return "rotary"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    if (inputs[0].size() < 3 || inputs[0].back() % 2 != 0) {
      fail("expected vectors of even length, of shape (batch, places, ..., length), found {}",
           to_string(inputs[0]));
    }
    return inputs[0];
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size());
    return {.inputs = {letters}, .output = letters, .whole = letters.substr(letters.size() - 1)};
  }
  void forward(Lowering& lowering) const override {
    RotarySpec turning = kernel(lowering, false);
    turning.all = lowering.positions(dimension_letters(2).back());
    std::vector<Operand> operands{lowering.input(0)};
    if (turning.all > 0) operands.push_back(lowering.step_scalars());
    operands.push_back(lowering.output());
    lowering.emit(turning, std::move(operands));
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    lowering.emit(kernel(lowering, true), {lowering.output_gradient(), lowering.input_gradient(0)});
  }
  bool backward_reads(int) const override { return false; }

 private:
  RotarySpec kernel(const Lowering& lowering, bool back) const {
    const Shape shape = lowering.local_output_shape();
    return {.batch = shape[0],
            .places = shape[1],
            .vectors = element_count(std::span(shape).subspan(2, shape.size() - 3)),
            .length = shape.back(),
            .first_place = lowering.output_block()[1].begin,
            .wavelength = wavelength_,
            .scaling = scaling_,
            .back = back};
  }

  double wavelength_, scaling_;
};

}  // namespace meshwork
