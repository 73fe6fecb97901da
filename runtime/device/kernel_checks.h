// What no device can run.
#pragma once

#include "runtime/device/kernels.h"

namespace meshwork {

/// Throws `Error` with the description of a specification that contradicts itself or asks for what
/// the interface does not have.
void check(const KernelSpec& spec);

}  // namespace meshwork
