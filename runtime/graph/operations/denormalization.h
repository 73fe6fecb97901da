// Denormalization: numbers of mean 0 and variance 1 brought to those of channels, y = x *
// sqrt(variance) + mean, on the last dimension: what a frozen batch normalization does, undone.
//
// Rule "bto,o,o->bto"; inputs: x, mean, variance, which are not trained. Nothing is reduced.
#pragma once

#include <vector>

#include "runtime/device/kernels/normalization.h"
#include "runtime/device/kernels/pairs.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class DenormalizationOperation final : public Operation {
 public:
  std::string kind() const override { return "denormalization"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 3);
    return inputs[0];
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size(), 'o');
    return {.inputs = {letters, "o", "o"}, .output = letters};
  }
  bool backward_reads(int) const override { return false; }

  void forward(Lowering& lowering) const override {
    const std::int64_t channels = columns_of(lowering.local_shape(0));
    const Operand mean = lowering.input(1), variance = lowering.input(2);
    const Operand inverse = lowering.scratch("inverse deviation", channels);
    lowering.emit(InverseDeviationSpec{channels, 1e-14}, {variance, inverse});
    lowering.emit(PairSpec{PairFunction::product, channels},
                  {variance, inverse, deviation(lowering)});
    lowering.zero(channels, zeros(lowering));
    lowering.emit(scaling(lowering, true), {lowering.input(0), zeros(lowering), deviation(lowering),
                                            mean, lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    lowering.emit(scaling(lowering, false), {lowering.output_gradient(), zeros(lowering),
                                             deviation(lowering), lowering.input_gradient(0)});
  }

 private:
  // (x - 0) * deviation, and the mean if it `shifts`.
  static NormalizeSpec scaling(const Lowering& lowering, bool shifts) {
    const Shape x = lowering.local_shape(0);
    return {{.rows = rows_of(x), .channels = columns_of(x), .scale = false, .center = shifts}};
  }
  static Operand deviation(Lowering& lowering) {
    return lowering.scratch("deviation", columns_of(lowering.local_shape(0)));
  }
  static Operand zeros(Lowering& lowering) {
    return lowering.scratch("zeros", columns_of(lowering.local_shape(0)));
  }
};

}  // namespace meshwork
