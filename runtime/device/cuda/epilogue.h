// A product, then bias and activation: what a library does not do with the product itself, our own
// kernel does in place on its result. It is bound by bytes, 8 an element, out of the second cache
// where the result fits.
#pragma once

#include <cstdint>

#include "runtime/device/cuda/kernels.h"
#include "runtime/device/kernels/activation.h"

namespace meshwork::cuda {

/// The product of `a` and `b` into (rows, columns). `bias`: the operands have one, behind b.
/// `fused_bias`: `product` adds it itself and has it among its operands.
struct Epilogue {
  std::int64_t rows = 0, columns = 0;
  bool bias = false, fused_bias = false;
  Activation activation = Activation::linear;
};

/// `product` has the operands a, b, [bias if fused], c, and perhaps a workspace; the result has a,
/// b, [bias], c and the workspace. `product` itself if there is nothing left to do.
[[nodiscard]] KernelPointer with_epilogue(KernelPointer product, const Epilogue& epilogue,
                                          const Context& context);

}  // namespace meshwork::cuda
