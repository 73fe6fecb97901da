// Rounding float32 to bfloat16, its upper half: 8 significant bits.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/device/host_device.h"

namespace meshwork {

constexpr std::int64_t bfloat16_bytes = 2;

/// The bfloat16 next to `x`, ties to even. NaN stays NaN.
[[nodiscard]] MESHWORK_HOST_DEVICE inline std::uint16_t narrowed(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  // Of a NaN, one bit has to be left in the upper half, which else would be infinity's.
  const std::uint32_t kept = nan ? bits | 0x400000U : bits + 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>(kept >> 16);
}

/// The same number.
[[nodiscard]] MESHWORK_HOST_DEVICE inline float widened(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

/// `x` as it is after both.
[[nodiscard]] MESHWORK_HOST_DEVICE inline float rounded_to_bfloat16(float x) {
  return widened(narrowed(x));
}

}  // namespace meshwork
