#include "runtime/device/cuda/epilogue.h"

#include <array>
#include <cstddef>
#include <utility>

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cuda {

namespace {

class WithEpilogue final : public Kernel {
 public:
  WithEpilogue(KernelPointer product, KernelPointer rest, const Epilogue& epilogue)
      : product_(std::move(product)), rest_(std::move(rest)), epilogue_(epilogue) {}

  void run(void* const* operands) override {
    void* const c = operands[epilogue_.bias ? 3 : 2];
    void* const workspace =
        product_->workspace_bytes() > 0 ? operands[epilogue_.bias ? 4 : 3] : nullptr;
    std::array<void*, most_operands> list{operands[0], operands[1], c, workspace};
    if (epilogue_.fused_bias) list = {operands[0], operands[1], operands[2], c, workspace};
    product_->run(list.data());
    const bool adds = epilogue_.bias && !epilogue_.fused_bias;
    list = {c, adds ? operands[2] : c, c};
    rest_->run(list.data());
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return product_->workspace_bytes();
  }

 private:
  static constexpr std::size_t most_operands = 5;
  KernelPointer product_, rest_;
  Epilogue epilogue_;
};

}  // namespace

KernelPointer with_epilogue(KernelPointer product, const Epilogue& epilogue,
                            const Context& context) {
  const bool adds = epilogue.bias && !epilogue.fused_bias;
  if (!adds && epilogue.activation == Activation::linear) return product;
  KernelPointer rest =
      adds
          ? compile(BiasAddSpec{epilogue.rows, epilogue.columns, epilogue.activation}, context)
          : compile(ActivationSpec{epilogue.activation, epilogue.rows * epilogue.columns}, context);
  return std::make_unique<WithEpilogue>(std::move(product), std::move(rest), epilogue);
}

}  // namespace meshwork::cuda
