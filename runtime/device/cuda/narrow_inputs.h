// Products of operands in float32 by kernels that read bfloat16: the operands are narrowed into the
// workspace before. Bound by bytes, 6 an element; who multiplies with one several times narrows it
// once and hands it over as it is then (MatmulSpec::narrow).
#pragma once

#include <cstdint>

#include "runtime/device/cuda/kernels.h"

namespace meshwork::cuda {

/// A kernel with the operands of `kernel`, of which there are `operand_count` without a workspace,
/// that runs it with the first two narrowed; these have `first_count` and `second_count` elements.
[[nodiscard]] KernelPointer with_narrow_inputs(KernelPointer kernel, int operand_count,
                                               std::int64_t first_count, std::int64_t second_count,
                                               const Context& context);

}  // namespace meshwork::cuda
