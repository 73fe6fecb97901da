// A count that a stream keeps in memory of the host.
#pragma once

#include <cstdint>

#include "runtime/device/cuda/launcher.h"

namespace meshwork::cuda {

/// Adds one to `count`, in pinned memory that this stream alone writes, behind what the stream was
/// given before.
void start_count(const Launcher& launcher, std::uint64_t* count);

}  // namespace meshwork::cuda
