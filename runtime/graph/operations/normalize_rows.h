// Rows brought to mean 0 and variance 1: y = (x - mean) / sqrt(variance + epsilon), with the mean and
// the population variance over all dimensions from `first` on, taken together.
//
// Rule "btuv->btuv", and the letters from `first` on are its own: where axes split them, the sums of
// the rows are completed by an all-reduce, then those of squares around the mean, so that neither
// loses digits to a mean far from 0. Backward, with s and r the sums of dy and of y * dy over a row
// of n, completed by one all-reduce: dx = (dy - (s + y * r) / n) / sqrt(variance + epsilon).
#pragma once

#include <string>

#include "collectives/error.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class NormalizeRowsOperation final : public Operation {
 public:
  NormalizeRowsOperation(std::size_t first, float epsilon) : first_(first), epsilon_(epsilon) {}

  std::string kind() const override { return "normalize rows"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    if (inputs[0].size() <= first_) {
      fail("expected an input of more than {} dimensions, found shape {}", first_,
           to_string(inputs[0]));
    }
    return inputs[0];
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size());
    return {.inputs = {letters}, .output = letters, .own = letters.substr(first_)};
  }
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    const std::string rows = rule.output.substr(0, first_);
    return {{.over = rule.own, .of = rows},
            {.over = rule.own, .of = rows},
            {.over = rule.own, .of = rows, .bytes_per_element = 8, .backward = true}};
  }
  double flops(std::span<const Shape>, const Shape& output) const override {
    return 6.0 * static_cast<double>(element_count(output));
  }
  bool backward_reads(int) const override { return false; }

  void forward(Lowering& lowering) const override {
    const auto [rows, columns, count] = extents(lowering);
    const Operand x = lowering.input(0);
    const Operand sums = lowering.scratch("sums of rows", rows);
    lowering.emit(RowSumSpec{rows, columns}, {x, sums});
    reduce(lowering, sums, 1, "sums of rows");
    lowering.emit(RowSquaresSpec{rows, columns, count}, {x, sums, squares(lowering)});
    reduce(lowering, squares(lowering), 1, "squares of rows");
    lowering.emit(NormalizeRowsSpec{rows, columns, count, epsilon_},
                  {x, sums, squares(lowering), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    const auto [rows, columns, count] = extents(lowering);
    const Operand y = lowering.output(), dy = lowering.output_gradient();
    const Operand sums = lowering.scratch("sums of gradients", 2 * rows), dots = sums.after(rows);
    lowering.emit(RowSumSpec{rows, columns}, {dy, sums});
    lowering.emit(RowDotSpec{rows, columns}, {y, dy, dots});
    reduce(lowering, sums, 2, "sums of gradients");
    lowering.emit(NormalizeRowsGradientSpec{rows, columns, count, epsilon_},
                  {y, dy, squares(lowering), sums, dots, lowering.input_gradient(0)});
  }

 private:
  struct Extents {
    std::int64_t rows, columns;  // of this rank
    std::int64_t count;          // of a whole row
  };
  [[nodiscard]] Extents extents(const Lowering& lowering) const {
    const Shape y = lowering.local_output_shape();
    const std::span<const std::int64_t> local(y), global(lowering.global_output_shape());
    return {element_count(local.first(first_)), element_count(local.subspan(first_)),
            element_count(global.subspan(first_))};
  }
  [[nodiscard]] Operand squares(Lowering& lowering) const {
    return lowering.scratch("squares of rows", extents(lowering).rows);
  }
  // `each` numbers a row.
  void reduce(Lowering& lowering, Operand sums, int each, const char* what) const {
    const Shape& global = lowering.global_output_shape();
    lowering.all_reduce(dimension_letters(global.size()).substr(first_), ElementType::float32,
                        Reduction::sum, sums, each * extents(lowering).rows,
                        each * element_count(std::span(global).first(first_)), what);
  }

  std::size_t first_;
  float epsilon_;
};

}  // namespace meshwork
