// The rounds of philox.h on many counters at once, which a processor does side by side: a loop over
// counters that calls `philox` is not vectorised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace meshwork {

/// words[w][c] is word w of counter c; the upper 32 bits of each hold anything. Words lie in 64
/// bits, masked where it matters, at half the time of 32-bit words that are widened for each
/// product and narrowed after it.
template <std::size_t count>
using PhiloxLanes = std::array<std::array<std::uint64_t, count>, 4>;

/// Puts the four words for `key` in place of the counters, which stand there as words of 32 bits,
/// the least significant first: of philox(key, block, step) block, block >> 32, step, step >> 32.
template <std::size_t count>
void philox_lanes(std::uint64_t key, PhiloxLanes<count>& words) {
  constexpr std::uint64_t low = 0xffffffffu;
  auto& [c0, c1, c2, c3] = words;
  std::uint64_t k0 = key & low, k1 = key >> 32;
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (std::size_t c = 0; c < count; ++c) {
      const std::uint64_t p0 = (c0[c] & low) * 0xD2511F53u;
      const std::uint64_t p1 = (c2[c] & low) * 0xCD9E8D57u;
      c0[c] = (p1 >> 32) ^ c1[c] ^ k0;
      c2[c] = (p0 >> 32) ^ c3[c] ^ k1;
      c1[c] = p1;
      c3[c] = p0;
    }
    k0 = (k0 + 0x9E3779B9u) & low;
    k1 = (k1 + 0xBB67AE85u) & low;
  }
}

}  // namespace meshwork
