// The Philox words of elements that follow each other, for kernels that drop some of them.
//
// Thirty-two counters, which cover 128 elements, are computed side by side, so that the rounds
// vectorise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/device/philox_lanes.h"

namespace meshwork::cpu {

constexpr std::size_t group_counters = 32;
constexpr auto group_words = static_cast<std::int64_t>(4 * group_counters);

/// words[4 c + w] = word w of counter first + c.
inline void philox_group(std::uint64_t key, std::uint64_t first, std::uint64_t step,
                         std::uint32_t* words) {
  alignas(64) PhiloxLanes<group_counters> lanes;
  for (std::size_t c = 0; c < group_counters; ++c) {
    lanes[0][c] = first + c;
    lanes[1][c] = (first + c) >> 32;
    lanes[2][c] = step;
    lanes[3][c] = step >> 32;
  }
  philox_lanes(key, lanes);
#pragma omp simd
  for (std::size_t c = 0; c < group_counters; ++c) {
    words[4 * c] = static_cast<std::uint32_t>(lanes[0][c]);
    words[4 * c + 1] = static_cast<std::uint32_t>(lanes[1][c]);
    words[4 * c + 2] = static_cast<std::uint32_t>(lanes[2][c]);
    words[4 * c + 3] = static_cast<std::uint32_t>(lanes[3][c]);
  }
}

}  // namespace meshwork::cpu
