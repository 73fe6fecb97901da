// Trials: what NVIDIA's documentation does not say of an epilogue, or what a product would silently
// get wrong if we misread it, tried on the GPU when the kernel is made.
//
//   - Whether relu makes NaN of NaN. (Versions are known that make 0 of it.)
//   - In which order the bits of a relu mask lie: it is written by one product and read by another,
//     and either may be a kernel of ours.
//   - Whether the column sums are those of the right factor.
//
// A trial runs the product once, on memory of its own. Where it fails, the product is taken without
// the epilogue, and our own kernels follow it (gradient_epilogue.h).
#pragma once

#include "runtime/device/cuda/compile.h"

namespace meshwork::cuda {

/// Whether `product`, a kernel for `spec`, does with what it takes along as kernels/products.h
/// says. Whatever takes along a bias at most does.
[[nodiscard]] bool stands_trial(Kernel& product, const MatmulSpec& spec, const Context& context);

}  // namespace meshwork::cuda
