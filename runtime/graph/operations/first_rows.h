// The first rows of a table: y (n, ...) = table (rows, ...) up to row n.
//
// Rule "tu->tu" with windows over t. The gradient of the rows behind them is 0.
#pragma once

#include <cstdint>

#include "collectives/error.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class FirstRowsOperation final : public Operation {
 public:
  /// The first `rows`, of one dimension at least.
  explicit FirstRowsOperation(std::int64_t rows) : rows_(rows) {}

  std::string kind() const override { return "first rows"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    Shape output = inputs[0];
    if (output.empty() || output[0] < rows_) {
      fail("a tensor of shape {} does not have {} rows", to_string(output), rows_);
    }
    output[0] = rows_;
    return output;
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size());
    return {.inputs = {letters}, .output = letters, .windows = letters.substr(0, 1)};
  }
  double flops(std::span<const Shape>, const Shape&) const override { return 0; }

  void forward(Lowering& lowering) const override {
    const Operand table = lowering.input(0);
    copy(lowering, table.after(first(lowering)), lowering.output());
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    const Operand gradient = lowering.input_gradient(0);
    const std::int64_t held = element_count(lowering.local_shape(0));
    if (held > element_count(lowering.local_output_shape())) lowering.zero(held, gradient);
    copy(lowering, lowering.output_gradient(), gradient.after(first(lowering)));
  }
  bool backward_reads(int) const override { return false; }

 private:
  // Where the block of the output begins in that of the table, in elements.
  static std::int64_t first(const Lowering& lowering) {
    const Shape y = lowering.local_output_shape();
    if (element_count(y) == 0) return 0;
    const std::int64_t rows = lowering.output_block()[0].begin - lowering.block(0)[0].begin;
    return rows * (element_count(y) / y[0]);
  }
  static void copy(Lowering& lowering, Operand from, Operand to) {
    const std::int64_t count = element_count(lowering.local_output_shape());
    if (count == 0) return;
    lowering.emit(CopySpec{ElementType::float32, {{{count}, 0, 0, {1}, {1}}}}, {from, to});
  }

  std::int64_t rows_;
};

}  // namespace meshwork
