// What a product takes along beside bias and activation (kernels/products.h): the derivative of an
// activation, sums over the columns of a factor, relu masks.
//
// Each is a pass of our own behind the product: the library has none of them, and would have to
// write what is passed over anyway. It finds in cache what the product has just read or written. A
// mask is no gain here, since what else backward does with the value brings it into cache all the
// same; it is computed for devices that are tried on this one.
#pragma once

#include "runtime/device/cpu/kernels.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cpu {

/// `spec` without what this file adds.
[[nodiscard]] MatmulSpec without_gradients(MatmulSpec spec);

/// The kernel for `spec` from `product`, one for `without_gradients(spec)`; that itself if it is
/// the same.
[[nodiscard]] KernelPointer with_gradients(KernelPointer product, const MatmulSpec& spec,
                                           const Context& context);

}  // namespace meshwork::cpu
