// A factor for each element of the last dimension: y (..., o) = x (..., o) * factor (o).
//
// Rule "bto,o->bto". Backward: dx = dy * factor, dfactor = the sum of x * dy over all leading
// dimensions.
#pragma once

#include <string>

#include "collectives/error.h"
#include "runtime/device/kernels/pairs.h"
#include "runtime/device/kernels/products.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class ScaleOperation final : public Operation {
 public:
  std::string kind() const override { return "scale"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 2);
    if (inputs[0].empty() || inputs[factor] != Shape{inputs[0].back()}) {
      fail("an input of shape {} needs as many factors as its last dimension is long, found {}",
           to_string(inputs[0]), to_string(inputs[factor]));
    }
    return inputs[0];
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size(), 'o');
    return {.inputs = {letters, "o"}, .output = letters};
  }

  void forward(Lowering& lowering) const override {
    const Shape y = lowering.local_output_shape();
    lowering.emit(ColumnScaleSpec{rows_of(y), columns_of(y)},
                  {lowering.input(0), lowering.input(factor), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    const Shape y = lowering.local_output_shape();
    const std::int64_t rows = rows_of(y), columns = columns_of(y);
    if (lowering.needs_gradient(0)) {
      lowering.emit(
          ColumnScaleSpec{rows, columns},
          {lowering.output_gradient(), lowering.input(factor), lowering.input_gradient(0)});
    }
    if (lowering.needs_gradient(factor)) {
      const Operand terms = lowering.scratch("factor terms", rows * columns);
      lowering.emit(PairSpec{PairFunction::product, rows * columns},
                    {lowering.input(0), lowering.output_gradient(), terms});
      lowering.emit(ColumnSumSpec{rows, columns}, {terms, lowering.input_gradient(factor)});
    }
  }

 private:
  static constexpr int factor = 1;
};

}  // namespace meshwork
