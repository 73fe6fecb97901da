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

  std::string kind() const override { return std::string(name_of(activation_)); }
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int) const override { return !differentiable_from_output(activation_); }
  ValueKind output_values() const override {
    return activation_ == Activation::sigmoid ? ValueKind::probabilities : ValueKind::numbers;
  }
  Fusible fusible() const override {
    return {.epilogue = {.activation = activation_},
            .is_epilogue = differentiable_from_output(activation_),
            .ends_in = activation_};
  }

 private:
  Activation activation_;
};

}  // namespace meshwork
