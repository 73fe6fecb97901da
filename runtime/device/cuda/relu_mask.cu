#include "runtime/device/cuda/relu_mask.h"

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/element_functions.h"

namespace meshwork::cuda {

namespace {

/// One byte of the mask, and the elements that it is about.
struct ReluToMask {
  float* x;
  const float* bias;  // null: none
  std::uint8_t* mask;
  std::int64_t columns, row_bytes;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / row_bytes, begin = i % row_bytes * 8;
    float* of_row = x + row * columns;
    unsigned bits = 0;
    for (int bit = 0; bit < 8; ++bit) {
      const std::int64_t j = begin + bit;
      if (j >= columns) break;
      const float y = bodies::Relu{}(bias == nullptr ? of_row[j] : of_row[j] + bias[j]);
      of_row[j] = y;
      if (y > 0.0f) bits |= 1U << bit;
    }
    mask[i] = static_cast<std::uint8_t>(bits);
  }
};

struct Masked {
  const std::uint8_t* mask;
  const float* dy;
  float* dx;
  std::int64_t columns, row_bytes;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / columns, j = i % columns;
    dx[i] = (mask[row * row_bytes + j / 8] >> (j % 8) & 1) != 0 ? dy[i] : 0.0f;
  }
};

}  // namespace

KernelPointer relu_to_mask(std::int64_t rows, std::int64_t columns, bool bias,
                           const Context& context) {
  const std::int64_t row_bytes = relu_mask_row_bytes(columns);
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, rows * row_bytes,
                 ReluToMask{at(operands, 0), bias ? at(operands, 1) : nullptr,
                            at<std::uint8_t>(operands, bias ? 2 : 1), columns, row_bytes});
  });
}

KernelPointer relu_gradient_from_mask(std::int64_t rows, std::int64_t columns,
                                      const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, rows * columns,
                 Masked{at<std::uint8_t>(operands, 0), at(operands, 1), at(operands, 2), columns,
                        relu_mask_row_bytes(columns)});
  });
}

}  // namespace meshwork::cuda
