// Relu masks (kernels/products.h) by kernels of our own: a thread for each byte, which is for eight
// elements, and so for a whole sector of memory; or a thread an element. Bound by bytes, 8 an
// element.
#pragma once

#include <cstdint>

#include "runtime/device/cuda/kernels.h"

namespace meshwork::cuda {

/// x = relu(x + bias) in place, for x (rows, columns), and the mask of it. Operands: x, [bias],
/// mask.
[[nodiscard]] KernelPointer relu_to_mask(std::int64_t rows, std::int64_t columns, bool bias,
                                         const Context& context);

/// dx = dy where the mask has a bit, else 0. May be in place. Operands: mask, dy, dx (rows,
/// columns).
[[nodiscard]] KernelPointer relu_gradient_from_mask(std::int64_t rows, std::int64_t columns,
                                                    const Context& context);

}  // namespace meshwork::cuda
