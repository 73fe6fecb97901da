// A device that is apart from the processor, for machines that have none: the CPU's kernels, on
// memory that the host cannot touch, done as late as the rules of device.h allow
// (apart_queues.h). What passes its tests on it forgets no copy and no waiting.
//
// A kernel reads its array of operands when it is done, not when it is started: the array has to
// stay until then, as those of a program do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device/device.h"

namespace meshwork::test {

/// What `free_bytes` of all such devices says from now on; 1 GiB before.
void set_apart_free_bytes(std::int64_t bytes);

/// Those of the CUDA device, so that what is booked for that is tested; of the kind `kind`.
[[nodiscard]] DeviceTraits apart_traits(std::string kind);

/// Its kind is "apart".
[[nodiscard]] std::unique_ptr<Device> make_apart_device(const DeviceOptions& options);
/// The same, whose queues have native streams (apart_queues.h).
[[nodiscard]] std::unique_ptr<Device> make_apart_device_with_streams(const DeviceOptions& options);

}  // namespace meshwork::test
