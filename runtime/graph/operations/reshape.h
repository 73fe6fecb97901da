// Reshape: the same elements in the same order, with other dimensions behind the batch.
//
// No data moves. In the rule, a dimension of the input that is also one of the output, with all
// before it and all behind it the same in number, keeps its letter and may be split: (b, 7, 4, 5)
// to (b, 7, 20) is "btuv->btw" with u, v and w whole. Dimensions that are merged or divided have to
// be whole, because blocks by the floor rule do not nest through a product. Dimensions of length 1
// may come and go anywhere.
#pragma once

#include "runtime/graph/operation.h"

namespace meshwork {

class ReshapeOperation final : public Operation {
 public:
  /// `sample` is the output's shape without dimension 0, which stays what it is.
  explicit ReshapeOperation(Shape sample) : sample_(std::move(sample)) {}

  std::string kind() const override { return "reshape"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;
  bool only_reshapes() const override { return true; }

 private:
  Shape sample_;
};

}  // namespace meshwork
