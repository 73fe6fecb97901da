// The kernels of extensions (runtime/device/launched_kernels.h), as the device compiles them.
#pragma once

#include "collectives/error.h"
#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/launched_kernels.h"

namespace meshwork::cuda {

/// `launch` in the queue of `launcher`.
inline KernelPointer launched(const gpu::Launch& launch, const Launcher& launcher) {
  return make_kernel(
      [start = launch.start, launcher](void* const* operands) {
        const gpu::Queue queue{.stream = launcher.stream, .processors = launcher.processors};
        if (const char* const problem = start(queue, operands)) {
          fail("{}: the extension could not launch its kernel: {}", *launcher.name, problem);
        }
      },
      launch.workspace_bytes);
}

/// Enters what extensions have so far.
inline void add_launched(Kernels& kernels) {
  const gpu::Kernels extended = gpu::extended_kernels();
  for (const auto& [type, make] : extended.entries()) {
    kernels.add(*type, [make = make](const KernelSpec& spec, const Context& context) {
      return launched(make(spec), context.launcher);
    });
  }
}

}  // namespace meshwork::cuda
