// Between float32 and bfloat16.
//
// Products in bfloat16 on processors that gain nothing from instructions for it, or have none
// (bfloat16_instructions.h), are those of kernels that read float32: operands are brought to
// float32's form, into the workspace, and a kernel runs on them. Rounded on the way, or widened
// where they are stored in bfloat16: the numbers are those of the instructions, to the order of
// the sums. It takes the kernel's time and two passes over its inputs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/device/cpu/kernels.h"

namespace meshwork::cpu {

/// A kernel with the operands of `kernel`, of which there are `operand_count` without a workspace,
/// that runs it with the first two rounded; these have `first_count` and `second_count` elements.
KernelPointer with_rounded_inputs(KernelPointer kernel, int operand_count, std::int64_t first_count,
                                  std::int64_t second_count, const Context& context);
/// The same where the first two come as bfloat16.
KernelPointer with_widened_inputs(KernelPointer kernel, int operand_count, std::int64_t first_count,
                                  std::int64_t second_count, const Context& context);

/// What either is called as a candidate, by the name of the kernel that it runs.
[[nodiscard]] inline std::string rounded_name(std::string_view name) {
  return "rounded " + std::string(name);
}

}  // namespace meshwork::cpu
