// y = x where x > 0, else slope * x, with a slope for each element of the last dimensions.
//
// Rule "btuv,xuv->btuv": the slope lacks the batch and has length 1 where elements share it, which
// are the first dimensions behind the batch. Its gradient is the sum of x * dy over all that share.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "collectives/error.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/pairs.h"
#include "runtime/device/kernels/products.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class SlopeOperation final : public Operation {
 public:
  /// The first `shared` dimensions behind the batch share a slope.
  explicit SlopeOperation(std::size_t shared) : shared_(shared) {}

  std::string kind() const override { return "slope"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 2);
    return inputs[0];
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::size_t dimensions = inputs[0].size();
    // Letters of their own for what is shared.
    const std::string letters = dimension_letters(dimensions + shared_);
    const std::string alone = letters.substr(dimensions);
    return {.inputs = {letters.substr(0, dimensions),
                       alone + letters.substr(1 + shared_, dimensions - 1 - shared_)},
            .output = letters.substr(0, dimensions),
            .whole = alone};
  }

  void forward(Lowering& lowering) const override {
    const auto [rows, columns] = extents(lowering);
    lowering.emit(SlopeSpec{rows, columns},
                  {lowering.input(0), lowering.input(slope), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    const auto [rows, columns] = extents(lowering);
    if (lowering.needs_gradient(0)) {
      lowering.emit(SlopeGradientSpec{rows, columns},
                    {lowering.input(0), lowering.input(slope), lowering.output_gradient(),
                     lowering.input_gradient(0)});
    }
    if (lowering.needs_gradient(slope)) {
      const std::int64_t count = rows * columns;
      const Operand terms = lowering.scratch("slope terms", count);
      lowering.emit(SlopeTermSpec{count}, {lowering.input(0), lowering.output_gradient(), terms});
      lowering.emit(ColumnSumSpec{rows, columns}, {terms, lowering.input_gradient(slope)});
    }
  }

 private:
  static constexpr int slope = 1;

  struct Extents {
    std::int64_t rows, columns;
  };
  [[nodiscard]] Extents extents(const Lowering& lowering) const {
    const Shape y = lowering.local_output_shape();
    const std::span<const std::int64_t> all(y);
    return {element_count(all.first(1 + shared_)), element_count(all.subspan(1 + shared_))};
  }

  std::size_t shared_;
};

}  // namespace meshwork
