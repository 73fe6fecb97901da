// The kernels of extensions (runtime/device/launched_kernels.h), as the device compiles them.
#pragma once

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/launched_kernels.h"

namespace meshwork::cuda {

/// `launch` in the queue of `launcher`, whose errors name the kernel.
inline KernelPointer launched(const gpu::Launch& launch, const Launcher& launcher) {
  return make_kernel(
      [start = launch.start, launcher](void* const* operands) {
        start({.stream = launcher.stream, .processors = launcher.processors}, operands);
        check_launch(launcher);
      },
      launch.workspace_bytes);
}

}  // namespace meshwork::cuda
