// What a product takes along (kernels/products.h) and the library does not do with it: our own
// kernels do it behind. They are bound by bytes, out of the second cache where the matrix fits.
#pragma once

#include "runtime/device/cuda/kernels.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cuda {

/// `spec` with nothing that is taken along.
[[nodiscard]] MatmulSpec bare(MatmulSpec spec);

/// The kernel for `spec` from `product`, which is one for `inner`: `spec`, or that without some of
/// what it takes along. `product` itself if there is nothing left to do.
[[nodiscard]] KernelPointer finished(KernelPointer product, const MatmulSpec& spec,
                                     const MatmulSpec& inner, const Context& context);

}  // namespace meshwork::cuda
