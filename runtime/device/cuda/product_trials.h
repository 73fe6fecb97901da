// What a product of cuBLASLt has to show on the GPU (trial.h): what NVIDIA's documentation does not
// say of an epilogue, or what would silently go wrong if we misread it.
//
//   - Whether relu makes NaN of NaN. (Versions are known that make 0 of it.)
//   - Which bits a relu mask has, and in which order: one product writes it and another reads it,
//     and either may be a kernel of ours. A sum of 0 has no bit, since relu's derivative is 0 there.
//   - Whether the bias is added to its columns, and whether the column sums are those of the right
//     factor.
//   - Whether the library runs it at all.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/product.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cuda {

/// Why `product`, a kernel for `spec`, is not taken; empty if it does what kernels/products.h says.
/// It is tried on operands at multiples of `alignment` and of nothing more, where the product takes
/// such.
[[nodiscard]] std::string refusal(Product& product, const MatmulSpec& spec, std::uint32_t alignment,
                                  const Context& context);

}  // namespace meshwork::cuda
