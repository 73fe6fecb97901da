// Memory of the CPU: aligned, zeroed, and in huge pages where it is large.
#pragma once

#include <cstdint>

#include "runtime/device/device.h"

namespace meshwork::cpu {

/// As Device::allocate. Where huge pages are worth it (collectives/huge_pages.h), whole ones, taken
/// by the first thread that writes to them.
[[nodiscard]] Memory allocate(std::int64_t bytes);

}  // namespace meshwork::cpu
