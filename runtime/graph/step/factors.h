// The numbers that the products of a step read.
//
// Operations book products of float32. In which precision they are computed is the step's affair,
// and so is what is rounded for them. Where the device takes factors as bfloat16 stores them
// (MatmulSpec::narrow), a variable that has a narrow copy is read there (parameters.h). Other
// factors are narrowed here, once for all products of the operation: the input for forward and the
// kernel's gradient, the output's gradient for both gradients. Joined weights are narrowed for
// each product, so that there are no more of them than a layer needs.
//
// This is no rewrite of the graph (rewrites/rewrites.h): it goes by device, precision and the place
// of an operand in memory, which the plan knows nothing of.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/device/kernel_spec.h"
#include "runtime/graph/step/context.h"

namespace meshwork {

/// Factors of an operation's products that were narrowed, by where they stand: buffer, offset,
/// elements.
using NarrowFactors = std::map<std::array<std::int64_t, 3>, Operand>;

/// Books a kernel of the operation at `path`; a product in the step's precision. What a product
/// reads is not written again while the operation has products that read it.
void book_kernel(StepContext& step, NarrowFactors& narrow, const KernelSpec& spec,
                 std::vector<Operand> operands, const std::string& path);

}  // namespace meshwork
