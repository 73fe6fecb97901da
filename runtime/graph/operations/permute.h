// Permute: the dimensions of a tensor in another order.
//
// Rule "btuv->bvtu" and the like: every dimension keeps its letter, so a split goes through.
#pragma once

#include <utility>
#include <vector>

#include "runtime/device/kernels/copies.h"
#include "runtime/graph/operation.h"

namespace meshwork {

class PermuteOperation final : public Operation {
 public:
  /// Dimension d of the output is dimension `order[d]` of the input.
  explicit PermuteOperation(std::vector<int> order) : order_(std::move(order)) {}

  std::string kind() const override { return "permute"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;

 private:
  CopyRegion moved(const Lowering& lowering) const;

  std::vector<int> order_;
};

}  // namespace meshwork
