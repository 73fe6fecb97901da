// Softmax over the last dimension: y = exp(x - max x) / sum exp(x - max x).
//
// Rule "btk->btk", and the letter k, the classes, is its own: where an axis splits it, the maxima
// and the sums of the rows are completed by an all-reduce each, so that no rank gathers the
// classes. Backward, with r = sum over classes of y * dy, completed alike: dx = y * (dy - r).
#pragma once

#include <string>
#include <string_view>

#include "collectives/error.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class SoftmaxOperation final : public Operation {
 public:
  std::string kind() const override { return "softmax"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    if (inputs[0].size() < 2) {
      fail("softmax needs at least two dimensions, batch and classes, found shape {}",
           to_string(inputs[0]));
    }
    return inputs[0];
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size(), classes.front());
    return {.inputs = {letters}, .output = letters, .own = std::string(classes)};
  }
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    const std::string rows = rule.output.substr(0, rule.output.size() - 1);
    const std::string over(classes);
    return {{.over = over, .of = rows},
            {.over = over, .of = rows},
            {.over = over, .of = rows, .backward = true}};
  }
  // Maximum, difference and exponential, sum, division.
  double flops(std::span<const Shape>, const Shape& output) const override {
    return 5.0 * static_cast<double>(element_count(output));
  }

  void forward(Lowering& lowering) const override {
    const Shape shape = lowering.local_output_shape();
    const std::int64_t rows = rows_of(shape);
    const std::int64_t columns = columns_of(shape);
    if (!lowering.splits(classes)) {
      lowering.emit(SoftmaxSpec{rows, columns}, {lowering.input(0), lowering.output()});
      return;
    }
    const Operand maxima = lowering.scratch("row maxima", rows);
    const Operand sums = lowering.scratch("row sums", rows);
    const Operand x = lowering.input(0);
    const Operand y = lowering.output();
    lowering.emit(RowMaximumSpec{rows, columns}, {x, maxima});
    lowering.all_reduce(classes, ElementType::float32, Reduction::maximum, maxima, rows,
                        rows_of(lowering.global_output_shape()), "row maxima");
    lowering.emit(RowExponentialSpec{rows, columns}, {x, maxima, y, sums});
    lowering.all_reduce(classes, ElementType::float32, Reduction::sum, sums, rows,
                        rows_of(lowering.global_output_shape()), "row sums");
    lowering.emit(RowDivideSpec{rows, columns}, {y, sums, y});
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) {
      return;
    }
    const Shape shape = lowering.local_output_shape();
    const std::int64_t rows = rows_of(shape);
    const std::int64_t columns = columns_of(shape);
    if (!lowering.splits(classes)) {
      lowering.emit(SoftmaxGradientSpec{.rows = rows, .columns = columns, .whole = true},
                    {lowering.output(), lowering.output_gradient(), lowering.input_gradient(0)});
      return;
    }
    const Operand dots = lowering.scratch("row products", rows);
    const Operand y = lowering.output();
    const Operand dy = lowering.output_gradient();
    lowering.emit(RowDotSpec{rows, columns}, {y, dy, dots});
    lowering.all_reduce(classes, ElementType::float32, Reduction::sum, dots, rows,
                        rows_of(lowering.global_output_shape()), "row products");
    lowering.emit(SoftmaxGradientSpec{rows, columns}, {y, dy, dots, lowering.input_gradient(0)});
  }
  bool backward_reads(int) const override { return false; }
  ValueKind output_values() const override { return ValueKind::probabilities; }

 private:
  static constexpr std::string_view classes = "k";
};

}  // namespace meshwork
