// Ranges of numbers that are computed with as float32.
#pragma once

#include <limits>

#include "runtime/config/range.h"

namespace meshwork {

inline constexpr double largest_float = std::numeric_limits<float>::max();
inline constexpr ValueRange float_any = at_least(-largest_float).up_to(largest_float);
inline constexpr ValueRange float_not_negative = at_least(0).up_to(largest_float);
inline constexpr ValueRange float_positive = positive.up_to(largest_float);
/// Those that float32 keeps with all their digits, by which something is divided.
inline constexpr ValueRange float_not_vanishing =
    at_least(std::numeric_limits<float>::min()).up_to(largest_float);

}  // namespace meshwork
