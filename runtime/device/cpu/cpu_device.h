// The CPU as a device: oneDNN for matrix products, plain loops for everything else.
//
// A kernel is done when its `run` returns. Loops are vectorised by the compiler and spread over
// threads above a size; no result depends on how many. Threads belong to the thread that made the
// device: it alone runs the device's kernels.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace meshwork::cpu {

[[nodiscard]] DeviceTraits traits();
[[nodiscard]] std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options);

}  // namespace meshwork::cpu
