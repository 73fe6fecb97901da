// Memory of the CPU: aligned, zeroed, and in huge pages where it is large.
#pragma once

#include <cstdint>

#include "runtime/device/device.h"

namespace meshwork::cpu {

/// As Device::allocate. From 2 MiB on an anonymous mapping aligned to 2 MiB, which asks for huge
/// pages and whose pages are taken by the first thread that writes to them.
[[nodiscard]] Memory allocate(std::int64_t bytes);

}  // namespace meshwork::cpu
