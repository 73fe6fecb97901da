// The CUDA device as a library of its own, libmeshwork_cuda.so, which lies beside this one and is
// opened when the device is asked for.
//
// It needs cuBLASLt and cuDNN, which take hundreds of megabytes and a tenth of a second to load,
// and may not be there where a program runs: what trains on CPUs needs none of it. These functions
// are all that the rest knows of the device; `cuda_device.h` has what the library exports. Builds
// without CUDA have the traits alone, to plan by.
#pragma once

#include <memory>
#include <string>

#include "runtime/device/device.h"

namespace meshwork::cuda {

[[nodiscard]] inline DeviceTraits traits() {
  return {.kind = "cuda",
          .computes_in_host_memory = false,
          .reads_narrow_operands = true,
          .reads_relu_masks = true};
}

/// Why there is no GPU to be had (no driver, one too old for this build, none that it shows, a
/// library that is missing); empty if there is one. Without a driver nothing is opened.
[[nodiscard]] std::string why_unavailable();

/// The GPU of this rank (gpu_choice.h). Throws `Error` where there is none, saying why.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options);

}  // namespace meshwork::cuda
