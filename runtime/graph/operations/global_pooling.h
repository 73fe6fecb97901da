// Global pooling: the mean or the maximum of each channel over all spatial dimensions, which are
// dropped.
//
// The mean is a sum by rule, "nhwc->nc", each rank's part divided by the global number of elements:
// a split of h or w leaves the output partial.
//
// A maximum does not add up, so its h and w are its own: rule "nhwc->nc", the ranks' maxima are
// reduced in forward, and in backward the number of elements that are the maximum, which share its
// gradient equally, as in Keras.
#pragma once

#include "runtime/graph/operation.h"

namespace meshwork {

/// On inputs (batch, spatial dimensions..., channels), with one spatial dimension or more.
class GlobalAverageOperation final : public Operation {
 public:
  std::string kind() const override { return "global average"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int) const override { return false; }
};

/// On inputs (batch, spatial dimensions..., channels), with one spatial dimension or more.
class GlobalMaximumOperation final : public Operation {
 public:
  std::string kind() const override { return "global maximum"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
};

}  // namespace meshwork
