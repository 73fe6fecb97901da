// The product of dense layers: y (..., o) = x (..., i) * kernel (i, o), summed over i.
//
// Rule "bti,io->bto". Backward, with dy (..., o): dx = dy * transpose(kernel), then
// dkernel = transpose(x) * dy, all leading dimensions taken together as rows.
//
// A bias and an activation that follow can be joined to it: y = activation(x * kernel + bias), with
// the gradient of what stands before the activation taken from y. relu runs inside the matrix
// product, the others in place behind it.
#pragma once

#include "runtime/device/kernels.h"
#include "runtime/graph/operation.h"

namespace meshwork {

class ProductOperation final : public Operation {
 public:
  explicit ProductOperation(bool bias = false, Activation activation = Activation::linear);

  std::string kind() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;
  std::unique_ptr<Operation> fused_with(const Operation& next, int position) const override;

 private:
  bool bias_;
  Activation activation_;
};

}  // namespace meshwork
