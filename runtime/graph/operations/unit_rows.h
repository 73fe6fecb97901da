// Vectors along the last dimension made as long as 1: y = x * min(1 / |x|, limit).
//
// Rule "btk->btk", and the letter k is its own: where an axis splits it, sums of squares are
// completed by an all-reduce, and in backward r = the sum of y * dy over k. dx = (dy - y * r) / |x|.
#pragma once

#include <string>
#include <string_view>

#include "runtime/device/kernels/rows.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class UnitRowsOperation final : public Operation {
 public:
  explicit UnitRowsOperation(float limit = 1e12f) : limit_(limit) {}

  std::string kind() const override { return "unit rows"; }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size(), of_row.front());
    return {.inputs = {letters}, .output = letters, .own = std::string(of_row)};
  }
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    const std::string rows = rule.output.substr(0, rule.output.size() - 1);
    const std::string over(of_row);
    return {{.over = over, .of = rows}, {.over = over, .of = rows, .backward = true}};
  }
  double flops(std::span<const Shape>, const Shape& output) const override {
    return 3.0 * static_cast<double>(element_count(output));
  }
  bool backward_reads(int) const override { return false; }

  void forward(Lowering& lowering) const override {
    const Shape shape = lowering.local_output_shape();
    const Operand x = lowering.input(0);
    const Operand squares = row_dots(lowering, "squares of rows", x, x);
    lowering.emit(UnitRowSpec{rows_of(shape), columns_of(shape), limit_},
                  {x, squares, lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    const Shape shape = lowering.local_output_shape();
    const Operand y = lowering.output(), dy = lowering.output_gradient();
    const Operand dots = row_dots(lowering, "row products", y, dy);
    lowering.emit(UnitRowGradientSpec{rows_of(shape), columns_of(shape), limit_},
                  {y, dy, lowering.scratch("squares of rows", rows_of(shape)), dots,
                   lowering.input_gradient(0)});
  }

 private:
  static constexpr std::string_view of_row = "k";
  static Operand row_dots(Lowering& lowering, const std::string& name, Operand a, Operand b) {
    const Shape shape = lowering.local_output_shape();
    const Operand dots = lowering.scratch(name, rows_of(shape));
    lowering.emit(RowDotSpec{rows_of(shape), columns_of(shape)}, {a, b, dots});
    lowering.all_reduce(of_row, ElementType::float32, Reduction::sum, dots, rows_of(shape),
                        rows_of(lowering.global_output_shape()), name);
    return dots;
  }

  float limit_;
};

}  // namespace meshwork
