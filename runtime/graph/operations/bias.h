// A bias over the last dimension: y (..., o) = x (..., o) + bias (o).
//
// Rule "bto,o->bto". Backward: dx = dy, dbias = the sum of dy over all leading dimensions. An
// activation that can be differentiated from its value can be joined (epilogue.h): y = activation(x
// + bias).
#pragma once

#include "runtime/device/kernels/activation.h"
#include "runtime/graph/operation.h"

namespace meshwork {

class BiasOperation final : public Operation {
 public:
  explicit BiasOperation(Epilogue epilogue = {});

  std::string kind() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;
  Activation ends_in() const override { return epilogue_.ends_in(); }
  bool draws() const override { return epilogue_.dropout > 0; }
  std::unique_ptr<Operation> fused_with(const Operation& next, int position) const override;
  std::optional<Epilogue> as_epilogue() const override { return epilogue_; }

 private:
  Epilogue epilogue_;
};

}  // namespace meshwork
