// Products in bfloat16 without instructions for it: operands rounded, in float32's form, into the
// workspace, and a kernel for float32 that runs on them.
//
// The numbers are those of the instructions, to the order of the sums. It takes the kernel's time
// and two passes over its inputs.
#pragma once

#include <cstdint>

#include "runtime/device/cpu/compile.h"

namespace meshwork::cpu {

/// `x` rounded to the nearest number of 8 significant bits, ties to even; NaN stays NaN.
[[nodiscard]] float rounded_to_bfloat16(float x);

/// A kernel with the operands of `kernel`, of which there are `operand_count` without a workspace,
/// that runs it with the first two rounded; these have `first_count` and `second_count` elements.
KernelPointer with_rounded_inputs(KernelPointer kernel, int operand_count, std::int64_t first_count,
                                  std::int64_t second_count, const Context& context);

}  // namespace meshwork::cpu
