// The identity: gives a value a name of its own. Moves no data, forward or backward.
#pragma once

#include "runtime/graph/operation.h"

namespace meshwork {

class IdentityOperation final : public Operation {
 public:
  std::string kind() const override { return "identity"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;
  std::optional<Epilogue> as_epilogue() const override { return Epilogue{}; }
  bool only_reshapes() const override { return true; }
};

}  // namespace meshwork
