// How much a kernel has to do: what its time is held against.
#pragma once

#include "runtime/device/kernels.h"

namespace meshwork {

/// The least that any implementation does: every operand read or written once, and the
/// multiplications and additions of products and convolutions (a fused one counts two; windows
/// count as if they lay inside the image). What is done element by element counts by its bytes.
struct KernelWork {
  double flops = 0;
  double bytes = 0;
  Precision precision = Precision::float32;  // of the multiplications
};

[[nodiscard]] KernelWork work_of(const KernelSpec& spec);

}  // namespace meshwork
