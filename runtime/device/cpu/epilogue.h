// A bias and an activation behind a product or a convolution.
//
// oneDNN can add both by itself, but its relu is max(x, 0) and turns NaN into 0: a run whose data
// or weights have gone bad would go on with a loss that looks well. So relu is a pass of our own,
// and takes the bias along. It is bound by bytes, and what the product has just written is in
// cache: 2 us of 75 for 64x256x784.
#pragma once

#include <cstdint>

#include "runtime/device/cpu/kernels.h"
#include "runtime/device/kernels/activation.h"

namespace meshwork::cpu {

/// `product` has the operands a, b, c (rows, columns) and perhaps a workspace; the result has a, b,
/// [bias (columns)], c and the workspace, and leaves c = activation(c + bias).
KernelPointer with_epilogue(KernelPointer product, std::int64_t rows, std::int64_t columns,
                            bool bias, Activation activation, const Context& context);

}  // namespace meshwork::cpu
