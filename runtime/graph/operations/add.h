// The sum of tensors of one shape. Rule "bt,bt->bt"; the gradient of each is the output's.
#pragma once

#include "runtime/graph/operation.h"

namespace meshwork {

class AddOperation final : public Operation {
 public:
  explicit AddOperation(int inputs) : inputs_(inputs) {}

  std::string kind() const override { return "add"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;

 private:
  int inputs_;
};

}  // namespace meshwork
