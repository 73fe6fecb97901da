// y = x * scale + offset, with two numbers for all elements. Rule "bt->bt"; dx = dy * scale. Of
// what is fed and has to be converted, or gathered, it is done in that pass.
#pragma once

#include "runtime/graph/operation.h"

namespace meshwork {

class AffineOperation final : public Operation {
 public:
  AffineOperation(float scale, float offset) : scale_(scale), offset_(offset) {}

  std::string kind() const override { return "affine"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;

 private:
  float scale_;
  float offset_;
};

}  // namespace meshwork
