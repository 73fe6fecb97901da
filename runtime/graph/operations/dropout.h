// Dropout: in training each element is kept with probability 1 - rate and divided by that, else 0.
//
// Rule "bt->bt": which elements are kept follows from their global indices, so that it is the same
// on every mesh, and the same again in backward. Outside training and at rate 0 nothing moves.
//
// Behind a relu that is joined to a product, a convolution or a bias, it is joined too
// (epilogue.h): it drops in place, and its gradient and that of relu are one pass over what it
// gave. Elsewhere backward draws the numbers again, which takes less than to keep them.
#pragma once

#include "runtime/graph/operation.h"

namespace meshwork {

class DropoutOperation final : public Operation {
 public:
  explicit DropoutOperation(float rate) : rate_(rate) {}

  std::string kind() const override { return "dropout"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;
  bool draws() const override { return rate_ > 0; }
  std::optional<Epilogue> as_epilogue() const override;

 private:
  bool drops(const Lowering& lowering) const;
  float rate_;
};

}  // namespace meshwork
