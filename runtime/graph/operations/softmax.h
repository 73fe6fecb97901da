// Softmax over the last dimension: y = exp(x - max x) / sum exp(x - max x).
//
// Rule "btk->btk", and the letter k, the classes, is its own: where an axis splits it, the maxima
// and the sums of the rows are completed by an all-reduce each, so that no rank gathers the
// classes. Backward, with r = sum over classes of y * dy, completed alike: dx = y * (dy - r).
#pragma once

#include "runtime/graph/operation.h"

namespace meshwork {

class SoftmaxOperation final : public Operation {
 public:
  std::string kind() const override { return "softmax"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;
};

}  // namespace meshwork
