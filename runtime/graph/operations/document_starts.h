// Where the document of each place begins: y (batch, places) of numbers x (batch, places; int32). A
// document goes up to a number that ends it, and the next begins behind that.
//
// Rule "bt->bt". Places slide a window: for those up to b a rank needs all numbers before, which it
// is brought. Of pieces of sequences (sequences.h) they are kept. No gradient goes through.
#pragma once

#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/kernels/documents.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class DocumentStartsOperation final : public Operation {
 public:
  explicit DocumentStartsOperation(std::int32_t end) : end_(end) {}

  /// The number that ends a document.
  std::int32_t end() const { return end_; }
  std::string kind() const override { return "document starts"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    if (inputs[0].size() != 2) {
      fail("expected sequences of numbers, of shape (batch, places), found {}",
           to_string(inputs[0]));
    }
    return inputs[0];
  }
  ElementType output_type(std::span<const ElementType> inputs) const override {
    if (inputs[0] != ElementType::int32) {
      fail("expected numbers, int32, found {}", name_of(inputs[0]));
    }
    return ElementType::float32;
  }
  Rule rule(std::span<const Shape>) const override {
    return {.inputs = {"bt"}, .output = "bt", .windows = "t"};
  }
  Range window(int, int, Range output, std::span<const Shape>) const override {
    return {0, output.end};
  }
  bool takes_pieces(char, const Rule&) const override { return true; }
  double flops(std::span<const Shape>, const Shape&) const override { return 0; }
  ValueKind output_values() const override { return ValueKind::mask; }

  void forward(Lowering& lowering) const override {
    const Block &x = lowering.block(0), &y = lowering.output_block();
    const DocumentStartSpec spec{.rows = y[0].length(),
                                 .places = y[1].length(),
                                 .all = x[1].length(),
                                 .first = y[1].begin - x[1].begin,
                                 .end = end_,
                                 .of_piece = lowering.positions('t') > 0};
    std::vector<Operand> operands{lowering.input(0)};
    if (spec.of_piece) operands.push_back(lowering.step_scalars());
    operands.push_back(lowering.output());
    lowering.emit(spec, std::move(operands));
  }
  void backward(Lowering&) const override {}

 private:
  std::int32_t end_;
};

}  // namespace meshwork
