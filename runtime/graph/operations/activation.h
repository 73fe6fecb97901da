// Activations. The elementwise ones are one operation; softmax, which looks at whole rows, is its
// own (softmax.h), and the linear one is the identity.
#pragma once

#include <memory>

#include "runtime/device/kernels/activation.h"
#include "runtime/graph/operation.h"

namespace meshwork {

/// Whether the derivative can be told from the value: relu, sigmoid, tanh, and linear. Only these
/// can be joined to the operation before, which keeps no value from before the activation.
[[nodiscard]] bool differentiable_from_output(Activation activation);

/// The operation that applies `activation`, whichever it is.
[[nodiscard]] std::unique_ptr<Operation> make_activation(Activation activation);

/// y = activation(x), element by element: relu, gelu, sigmoid or tanh. Rule "bt->bt".
class ActivationOperation final : public Operation {
 public:
  explicit ActivationOperation(Activation activation);

  std::string kind() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;
  Activation ends_in() const override;
  std::optional<Epilogue> as_epilogue() const override;

 private:
  Activation activation_;
};

}  // namespace meshwork
