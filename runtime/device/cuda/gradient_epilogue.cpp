#include "runtime/device/cuda/gradient_epilogue.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "runtime/device/cuda/epilogue.h"
#include "runtime/device/cuda/relu_mask.h"
#include "runtime/device/cuda/workspace.h"
#include "runtime/device/kernels/elementwise.h"

namespace meshwork::cuda {

namespace {

/// The product, then one kernel on what it read or wrote. Both use the same workspace.
class Finished final : public Kernel {
 public:
  Finished(KernelPointer product, KernelPointer rest, const MatmulSpec& spec,
           const MatmulSpec& inner)
      : product_(std::move(product)), rest_(std::move(rest)), spec_(spec), inner_(inner) {}

  void run(void* const* operands) override {
    const int result = result_operand(spec_), count = operand_count(spec_);
    void* const c = operands[result];
    void* const workspace = workspace_bytes() > 0 ? operands[count] : nullptr;
    // Of what the product has, a bias alone stands in front of c, and nothing behind it.
    std::array<void*, most_operands> list{operands[0], operands[1], c, workspace};
    if (inner_.bias) list = {operands[0], operands[1], operands[2], c, workspace};
    product_->run(list.data());
    if (spec_.column_sums) {
      list = {operands[1], operands[count - 1], workspace};
    } else if (spec_.derivative != Activation::linear) {
      list = {operands[2], c, c};
    } else if (spec_.bias && !inner_.bias) {
      list = {c, operands[2], operands[count - 1]};
    } else {
      list = {c, operands[count - 1]};
    }
    rest_->run(list.data());
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return std::max(product_->workspace_bytes(), rest_->workspace_bytes());
  }

 private:
  static constexpr std::size_t most_operands = 5;
  KernelPointer product_, rest_;
  MatmulSpec spec_, inner_;
};

}  // namespace

MatmulSpec bare(MatmulSpec spec) {
  spec.bias = spec.column_sums = spec.mask = false;
  spec.activation = spec.derivative = Activation::linear;
  return spec;
}

KernelPointer finished(KernelPointer product, const MatmulSpec& spec, const MatmulSpec& inner,
                       const Context& context) {
  KernelPointer rest;
  if (spec.column_sums && !inner.column_sums) {
    rest = compile(ColumnSumSpec{spec.k, spec.n}, context);
  } else if (spec.derivative != inner.derivative) {
    rest = spec.mask ? relu_gradient_from_mask(spec.m, spec.n, context)
                     : compile(ActivationGradientSpec{spec.derivative, spec.m * spec.n}, context);
  } else if (spec.mask && !inner.mask) {
    rest = relu_to_mask(spec.m, spec.n, spec.bias && !inner.bias, context);
  } else {
    const bool relu = spec.activation != inner.activation;
    return with_epilogue(std::move(product),
                         {.rows = spec.m,
                          .columns = spec.n,
                          .bias = spec.bias,
                          .fused_bias = inner.bias,
                          .activation = relu ? spec.activation : Activation::linear},
                         context);
  }
  return std::make_unique<Finished>(std::move(product), std::move(rest), spec, inner);
}

}  // namespace meshwork::cuda
