// Rows of a table: y (..., d) = table (v, d) at the numbers (...).
//
// Inputs: numbers (int32), table. Rule "bt,io->bto": the numbers of rows, i, are summed over, as by a
// product with rows that are 1 in one place. Where an axis splits them, a rank gives the rows that it
// holds and zeros for others, and the sum of what all give is exact. The gradient of the table is
// partial over the axes that split the numbers.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "collectives/error.h"
#include "runtime/device/kernels/embedding.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class EmbeddingOperation final : public Operation {
 public:
  /// Of a table of so many rows.
  explicit EmbeddingOperation(std::int64_t rows) : rows_(rows) {}

  std::string kind() const override { return "embedding"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 2);
    if (inputs[table].size() != 2 || inputs[table].front() != rows_) {
      fail("expected a table of {} rows, found shape {}", rows_, to_string(inputs[table]));
    }
    Shape shape = inputs[numbers];
    shape.push_back(inputs[table].back());
    return shape;
  }
  ElementType output_type(std::span<const ElementType> inputs) const override {
    if (inputs[numbers] != ElementType::int32) {
      fail("expected numbers of rows, int32, found {}; an input is of numbers with dtype: int32",
           name_of(inputs[numbers]));
    }
    return Operation::output_type(inputs.subspan(1));
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[numbers].size());
    return {.inputs = {letters, "io"}, .output = letters + 'o'};
  }
  std::int64_t classes(int input) const override { return input == numbers ? rows_ : 0; }
  // It reads and writes.
  double flops(std::span<const Shape>, const Shape&) const override { return 0; }

  void forward(Lowering& lowering) const override {
    const Extents at = extents(lowering);
    lowering.emit(EmbeddingSpec{at.rows, at.columns, at.first, at.held},
                  {lowering.input(numbers), lowering.input(table), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(table)) return;
    const Extents at = extents(lowering);
    lowering.emit(
        EmbeddingGradientSpec{at.rows, at.columns, at.first, at.held},
        {lowering.input(numbers), lowering.output_gradient(), lowering.input_gradient(table)});
  }
  bool backward_reads(int input) const override { return input == numbers; }

 private:
  static constexpr int numbers = 0, table = 1;

  struct Extents {
    std::int64_t rows, columns, first, held;
  };
  static Extents extents(const Lowering& lowering) {
    const Block& held = lowering.block(table);
    return {element_count(lowering.local_shape(numbers)), held[1].length(), held[0].begin,
            held[0].length()};
  }

  std::int64_t rows_;
};

}  // namespace meshwork
