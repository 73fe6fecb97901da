// A tensor repeated for each sample: y (batch, ...) = table (...), as many as x (batch, ...) has.
//
// Rule "btu,tu->btu". Of x only the shape matters, and its gradient is 0; that of the table is the
// sum of dy over the batch.
#pragma once

#include <algorithm>

#include "collectives/error.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class RepeatOperation final : public Operation {
 public:
  std::string kind() const override { return "repeat"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 2);
    const Shape &x = inputs[0], &table = inputs[1];
    if (!std::equal(x.begin() + 1, x.end(), table.begin(), table.end())) {
      fail("a tensor of shape {} is not what samples of shape {} repeat", to_string(table),
           to_string(x));
    }
    return x;
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size());
    return {.inputs = {letters, letters.substr(1)}, .output = letters};
  }
  double flops(std::span<const Shape>, const Shape&) const override { return 0; }

  void forward(Lowering& lowering) const override {
    lowering.emit(RepeatRowsSpec{batch(lowering), elements(lowering)},
                  {lowering.input(1), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (lowering.needs_gradient(0)) {
      lowering.zero(batch(lowering) * elements(lowering), lowering.input_gradient(0));
    }
    if (lowering.needs_gradient(1)) {
      lowering.emit(ColumnSumSpec{batch(lowering), elements(lowering)},
                    {lowering.output_gradient(), lowering.input_gradient(1)});
    }
  }
  bool backward_reads(int) const override { return false; }

 private:
  static std::int64_t batch(const Lowering& lowering) {
    return lowering.output_block()[0].length();
  }
  static std::int64_t elements(const Lowering& lowering) {
    return element_count(lowering.local_shape(1));
  }
};

}  // namespace meshwork
