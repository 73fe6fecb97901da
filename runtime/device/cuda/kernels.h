// The GPU's kernels.
//
// A file of this folder holds kernels of one concern, as in cpu/; its opening comment says which,
// how they are spread over the GPU, and what bounds them, and its last function enters them
// (kernel_set.h). One that composes others asks `compile` for them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/device/cuda/launcher.h"
#include "runtime/device/kernel_set.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cuda {

struct Libraries;  // libraries.h
class Trials;      // trial.h

struct Context;
using Kernels = KernelSet<Context>;
using KernelPointer = std::unique_ptr<Kernel>;

/// What kernels of one device share, with the name of the one that is made.
struct Context {
  Launcher launcher;
  Device* device = nullptr;
  const Libraries* libraries = nullptr;
  Trials* trials = nullptr;
  const Kernels* kernels = nullptr;

  /// A copy of a table in device memory, for a kernel to keep.
  [[nodiscard]] std::shared_ptr<const Memory> upload(const void* data, std::int64_t bytes) const {
    auto memory = std::make_shared<Memory>(device->allocate(bytes));
    device->copy_in(memory->data(), data, bytes);
    return memory;
  }
};

/// Enters those of every file of this folder.
void add_kernels(Kernels& kernels);

inline KernelPointer compile(const KernelSpec& spec, const Context& context) {
  return context.kernels->compile(spec, context);
}

/// Throws `Error`: "`kernel`: `reason`". For files that the compiler of CUDA reads, which has
/// trouble with the formats of collectives/error.h.
[[noreturn]] void refuse(const std::string& kernel, const std::string& reason);

/// A product with nothing that is taken along, by its definition (product_direct.cu).
KernelPointer compile_direct(const MatmulSpec& spec, const Context& context);

}  // namespace meshwork::cuda
