// The identity: gives a value a name of its own. Moves no data, forward or backward.
#pragma once

#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"

namespace meshwork {

class IdentityOperation final : public Operation {
 public:
  std::string kind() const override { return "identity"; }
  double flops(std::span<const Shape>, const Shape&) const override { return 0; }
  bool backward_reads(int) const override { return false; }
  ValueKind output_values() const override { return ValueKind::as_input; }
  Fusible fusible() const override { return {.is_epilogue = true}; }

  void forward(Lowering& lowering) const override { lowering.output_is_input(0); }
  void backward(Lowering& lowering) const override {
    if (lowering.needs_gradient(0)) {
      lowering.input_gradient_is_output_gradient(0);
    }
  }
};

}  // namespace meshwork
