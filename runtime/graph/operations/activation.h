// Activations. The elementwise ones are one operation; softmax, which looks at whole rows, is its
// own (softmax.h), and the linear one is the identity.
#pragma once

#include <memory>

#include "runtime/device/kernels/activation.h"
#include "runtime/graph/operation.h"

namespace meshwork {

/// The operation that applies `activation`, whichever it is.
[[nodiscard]] std::unique_ptr<Operation> make_activation(Activation activation);

/// y = activation(x), element by element, and not linear. Rule "bt->bt". Another alpha than 1 is
/// elu's; nothing that it can be joined with knows of it.
class ActivationOperation final : public Operation {
 public:
  explicit ActivationOperation(Activation activation, float alpha = 1);

  std::string kind() const override { return std::string(name_of(activation_)); }
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool keeps_order() const override { return meshwork::keeps_order(activation_); }
  bool backward_reads(int) const override { return !differentiable_from_output(activation_); }
  ValueKind output_values() const override {
    const bool shares = activation_ == Activation::sigmoid ||
                        activation_ == Activation::hard_sigmoid ||
                        activation_ == Activation::sparse_sigmoid;
    return shares ? ValueKind::probabilities : ValueKind::numbers;
  }
  Fusible fusible() const override {
    if (alpha_ != 1) return {};
    return {.epilogue = {.activation = activation_},
            .is_epilogue = differentiable_from_output(activation_),
            .ends_in = activation_};
  }

 private:
  Activation activation_;
  float alpha_;
};

}  // namespace meshwork
