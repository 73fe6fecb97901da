#include "runtime/device/cpu/gradient_epilogue.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/device/cpu/loops.h"
#include "runtime/device/kernels/elementwise.h"

namespace meshwork::cpu {

namespace {

/// The product, then a pass over what it read or wrote. Both use the same workspace.
class WithPass final : public Kernel {
 public:
  WithPass(KernelPointer product, KernelPointer pass, const MatmulSpec& spec)
      : product_(std::move(product)),
        pass_(std::move(pass)),
        derives_(spec.derivative != Activation::linear),
        sums_(spec.column_sums),
        result_(result_operand(spec)),
        count_(operand_count(spec)) {}

  void run(void* const* operands) override {
    // The product does not have the pass's own operand: the value in front of c, or what is last.
    std::array<void*, most_operands> list{};
    const int own = derives_ ? result_ - 1 : count_ - 1;
    void** const behind =
        std::copy(operands + own + 1, operands + count_, std::copy_n(operands, own, list.begin()));
    void* const workspace = workspace_bytes() > 0 ? operands[count_] : nullptr;
    *behind = workspace;
    product_->run(list.data());
    void* const c = operands[result_];
    list = derives_ ? std::array<void*, most_operands>{operands[own], c, c}
                    : std::array<void*, most_operands>{sums_ ? operands[1] : c, operands[own],
                                                       workspace};
    pass_->run(list.data());
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return std::max(product_->workspace_bytes(), pass_->workspace_bytes());
  }

 private:
  static constexpr std::size_t most_operands = 6;
  KernelPointer product_, pass_;
  bool derives_, sums_;
  int result_, count_;
};

/// The relu mask of x (rows, columns). Operands: x, mask.
KernelPointer write_mask(std::int64_t rows, std::int64_t columns, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    std::uint8_t* mask = at<std::uint8_t>(operands, 1);
    const std::int64_t row_bytes = relu_mask_row_bytes(columns);
    for_rows(threads, rows, columns * 4, [=](std::int64_t row) {
      const float* from = x + row * columns;
      std::uint8_t* to = mask + row * row_bytes;
      for (std::int64_t byte = 0; byte < row_bytes; ++byte) {
        unsigned bits = 0;
        for (std::int64_t j = byte * 8; j < std::min(columns, byte * 8 + 8); ++j) {
          bits |= static_cast<unsigned>(from[j] > 0.0f) << (j % 8);
        }
        to[byte] = static_cast<std::uint8_t>(bits);
      }
    });
  });
}

/// dx = dy where the mask has a bit, else 0. Operands: mask, dy, dx (rows, columns).
KernelPointer apply_mask(std::int64_t rows, std::int64_t columns, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const std::uint8_t* mask = at<std::uint8_t>(operands, 0);
    const float* dy = at(operands, 1);
    float* dx = at(operands, 2);
    const std::int64_t row_bytes = relu_mask_row_bytes(columns);
    for_rows(threads, rows, columns * 8, [=](std::int64_t row) {
      const std::uint8_t* bits = mask + row * row_bytes;
      const float* from = dy + row * columns;
      float* to = dx + row * columns;
      for (std::int64_t j = 0; j < columns; ++j) {
        to[j] = (bits[j / 8] >> (j % 8) & 1) != 0 ? from[j] : 0.0f;
      }
    });
  });
}

}  // namespace

MatmulSpec without_gradients(MatmulSpec spec) {
  spec.derivative = Activation::linear;
  spec.column_sums = spec.mask = false;
  return spec;
}

KernelPointer with_gradients(KernelPointer product, const MatmulSpec& spec,
                             const Context& context) {
  KernelPointer pass;
  if (spec.column_sums) {
    pass = compile(ColumnSumSpec{spec.k, spec.n}, context);
  } else if (spec.derivative != Activation::linear) {
    pass = spec.mask ? apply_mask(spec.m, spec.n, context)
                     : compile(ActivationGradientSpec{spec.derivative, spec.m * spec.n}, context);
  } else if (spec.mask) {
    pass = write_mask(spec.m, spec.n, context);
  } else {
    return product;
  }
  return std::make_unique<WithPass>(std::move(product), std::move(pass), spec);
}

}  // namespace meshwork::cpu
