// Scores (..., queries, keys) of attention, of which a query keeps those of the keys up to its own
// place: the others become minus infinity, which softmax makes 0.
//
// Rule "btuv->btuv": which are kept follows from global places, whatever is split. Backward: dx = dy
// where x was kept, else 0.
#pragma once

#include <cstdint>
#include <limits>

#include "collectives/error.h"
#include "runtime/device/kernels/causal_mask.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class CausalMaskOperation final : public Operation {
 public:
  /// Of the keys up to its own place a query keeps the last `window`; 0: all.
  explicit CausalMaskOperation(std::int64_t window = 0) : window_(window) {}

  std::string kind() const override { return "causal mask"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    const Shape& scores = inputs[0];
    if (scores.size() < 3 || scores.back() != scores[scores.size() - 2]) {
      fail("a causal mask needs as many queries as keys, found scores of shape {}",
           to_string(scores));
    }
    return scores;
  }
  void forward(Lowering& lowering) const override {
    lowering.emit(mask(lowering, -std::numeric_limits<float>::infinity()),
                  {lowering.input(0), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (lowering.needs_gradient(0)) {
      lowering.emit(mask(lowering, 0), {lowering.output_gradient(), lowering.input_gradient(0)});
    }
  }
  bool backward_reads(int) const override { return false; }

 private:
  CausalMaskSpec mask(const Lowering& lowering, float fill) const {
    const Block& block = lowering.output_block();
    const Shape shape = lowering.local_output_shape();
    const Range &queries = block[block.size() - 2], &keys = block.back();
    return {.batches = element_count(std::span(shape).first(shape.size() - 2)),
            .queries = queries.length(),
            .keys = keys.length(),
            .first_query = queries.begin,
            .first_key = keys.begin,
            .window = window_,
            .fill = fill};
  }

  std::int64_t window_;
};

}  // namespace meshwork
