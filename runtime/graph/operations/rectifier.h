// relu in Keras's general form: a slope below the threshold, a limit above. Rule "bt->bt".
//
// Plain relu is an ActivationOperation, which can be joined to what stands before it.
#pragma once

#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/operation.h"

namespace meshwork {

class RectifierOperation final : public Operation {
 public:
  explicit RectifierOperation(Rectifier rectifier) : rectifier_(rectifier) {}

  std::string kind() const override { return "rectifier"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;

 private:
  Rectifier rectifier_;
};

}  // namespace meshwork
