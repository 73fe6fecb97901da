// Launched kernels: how an extension brings kernels for GPUs.
//
// The extension compiles its kernels with nvcc, and enters, for each specification, how the kernel is
// *launched*:
//
//     gpu::extend_kernels([](gpu::Kernels& kernels) {
//       kernels.add<SwishSpec>([](const SwishSpec& spec) -> gpu::Launch {
//         return {[spec](const gpu::Queue& queue, void* const* operands) -> const char* {
//           return launch_swish(queue.stream, spec.rows, spec.columns, at(operands, 0), ...);
//         }};
//       });
//     });
//
// A launch starts work in the queue and returns. Operands are addresses in the memory of the GPU, which
// is current, in the order that the specification documents. A launch allocates nothing, waits for
// nothing and starts nothing elsewhere, since steps are captured into CUDA graphs; its start must not
// depend on values in the operands.
//
// A launch gives null, or what went wrong, which ends the run with the name of the kernel. It asks
// cudaGetLastError itself, in the file that nvcc compiles: an extension has a CUDA runtime of its own,
// whose errors nobody else sees.
//
// Nothing here needs CUDA. An extension with launches loads into a Meshwork that was built without it.
#pragma once

#include <cstdint>
#include <functional>
#include <typeinfo>
#include <utility>
#include <vector>

#include "runtime/device/kernel_spec.h"

namespace meshwork::gpu {

/// Where a kernel is started.
struct Queue {
  void* stream = nullptr;  // a cudaStream_t
  int processors = 1;      // of the GPU: its streaming multiprocessors
};

/// How a kernel is started.
struct Launch {
  std::function<const char*(const Queue& queue, void* const* operands)> start;
  /// Of scratch memory, which is the operand behind the last; 0: none.
  std::int64_t workspace_bytes = 0;
};

class Kernels {
 public:
  /// make(spec) says how the kernel of `spec` is launched. A later entry takes the place of an earlier
  /// one, and of a kernel that Meshwork has, but where that is a part of another one.
  template <KernelSpecification Spec>
  void add(std::function<Launch(const Spec&)> make) {
    entries_.push_back({&typeid(Spec), [make = std::move(make)](const KernelSpec& spec) {
                          return make(*spec.get_if<Spec>());
                        }});
  }
  struct Entry {
    const std::type_info* type = nullptr;
    std::function<Launch(const KernelSpec&)> make;
  };
  /// As they were entered.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

/// Devices that are made from now on have what `enter` enters too.
void extend_kernels(std::function<void(Kernels&)> enter);
/// What has been entered so far, for a device that is made.
[[nodiscard]] Kernels extended_kernels();

}  // namespace meshwork::gpu
