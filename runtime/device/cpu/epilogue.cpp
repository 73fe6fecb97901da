#include "runtime/device/cpu/epilogue.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cpu {

namespace {

class WithEpilogue final : public Kernel {
 public:
  WithEpilogue(KernelPointer product, KernelPointer epilogue, bool bias)
      : product_(std::move(product)), epilogue_(std::move(epilogue)), bias_(bias) {}

  void run(void* const* operands) override {
    void* const output = operands[bias_ ? 3 : 2];
    std::array<void*, most_operands> list{operands[0], operands[1], output};
    if (product_->workspace_bytes() > 0) list[3] = operands[bias_ ? 4 : 3];
    product_->run(list.data());
    list = bias_ ? std::array<void*, most_operands>{output, operands[2], output}
                 : std::array<void*, most_operands>{output, output};
    epilogue_->run(list.data());
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return product_->workspace_bytes();
  }

 private:
  static constexpr std::size_t most_operands = 5;
  KernelPointer product_, epilogue_;
  bool bias_;
};

}  // namespace

KernelPointer with_epilogue(KernelPointer product, std::int64_t rows, std::int64_t columns,
                            bool bias, Activation activation, const Context& context) {
  KernelPointer epilogue = bias ? compile(BiasAddSpec{rows, columns, activation}, context)
                                : compile(ActivationSpec{activation, rows * columns}, context);
  return std::make_unique<WithEpilogue>(std::move(product), std::move(epilogue), bias);
}

}  // namespace meshwork::cpu
