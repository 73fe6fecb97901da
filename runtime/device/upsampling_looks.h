// Which inputs an upsampled output looks at, and with which weights: worked out per dimension when
// a kernel is made, in whole numbers from global indices, so that every split gives the same
// numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/kernels/upsampling.h"

namespace meshwork {

/// What one output looks at: local inputs `low` and `high`, the latter with `weight`, the former
/// with the rest.
struct Look {
  std::int64_t low, high;
  float weight;
};

/// By output of one dimension. Throws `Error` naming `name`, the kernel, for an input that is
/// needed and not held.
[[nodiscard]] std::vector<Look> looks_of(const UpsamplingDimension& at, Interpolation interpolation,
                                         const std::string& name);

}  // namespace meshwork
