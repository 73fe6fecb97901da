// The device that the tests of kernels run on: "cpu", or what MESHWORK_TEST_DEVICE says: "cuda", or
// "cuda-on-host", the kernels of the CUDA device run on the host (tests/support/cuda_on_host), or
// "cuda-on-host-unfolded", with convolutions as products.
//
// Of a kernel that has candidates (runtime/device/kernel_candidates.h) it is the one that
// MESHWORK_TEST_CANDIDATE names; without that, or where there is none of that name, the first.
//
// Where there is no GPU the executable says so and ends with the status that the registration takes
// for skipped.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device/cpu/kernels.h"
#include "runtime/device/device.h"
#include "runtime/device/kernels/precision.h"

namespace meshwork::test {

[[nodiscard]] Device& kernel_device();

/// In which numbers it multiplies.
[[nodiscard]] std::vector<Precision> precisions();

/// A kernel of it. `threads` are the CPU's; other devices have no such thing.
[[nodiscard]] std::unique_ptr<Kernel> compile_for_test(const KernelSpec& spec, int threads);

/// How often operator new was called so far (tests/support/allocations.h).
[[nodiscard]] long allocation_count();

/// For kernels of the CPU's alone.
[[nodiscard]] cpu::Context cpu_context(int threads);

}  // namespace meshwork::test
