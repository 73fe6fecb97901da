// The Philox words of elements, for kernels that drop some of them.
//
// Thirty-two counters, which cover 128 elements, are computed side by side, so that the rounds
// vectorise.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "runtime/device/philox_lanes.h"

namespace meshwork::cpu {

constexpr std::size_t group_counters = 32;
constexpr auto group_words = static_cast<std::int64_t>(4 * group_counters);

/// words[4 c + w] = word w of counter counters[c].
inline void philox_group(std::uint64_t key, const std::uint64_t* counters, std::uint64_t step,
                         std::uint32_t* words) {
  alignas(64) PhiloxLanes<group_counters> lanes;
  for (std::size_t c = 0; c < group_counters; ++c) {
    lanes[0][c] = counters[c];
    lanes[1][c] = counters[c] >> 32;
    lanes[2][c] = step;
    lanes[3][c] = step >> 32;
  }
  philox_lanes(key, lanes);
  // Pairs of words are written, which takes fewer instructions than single ones.
  static_assert(std::endian::native == std::endian::little);
  using Pair [[gnu::aligned(alignof(std::uint32_t)), gnu::may_alias]] = std::uint64_t;
  Pair* const pairs = reinterpret_cast<Pair*>(words);
  constexpr std::uint64_t low = 0xffffffffu;
#pragma omp simd
  for (std::size_t c = 0; c < group_counters; ++c) {
    pairs[2 * c] = (lanes[0][c] & low) | lanes[1][c] << 32;
    pairs[2 * c + 1] = (lanes[2][c] & low) | lanes[3][c] << 32;
  }
}

/// words[4 c + w] = word w of counter first + c.
inline void philox_group(std::uint64_t key, std::uint64_t first, std::uint64_t step,
                         std::uint32_t* words) {
  std::array<std::uint64_t, group_counters> counters;
  for (std::size_t c = 0; c < group_counters; ++c) counters[c] = first + c;
  philox_group(key, counters.data(), step, words);
}

}  // namespace meshwork::cpu
