// Philox4x32-10: counter-based random numbers (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011).
//
// Four 32-bit words are a pure function of a 64-bit key and a 128-bit counter. Meshwork's key says
// who draws (seed and path), the counter says which element (64 bits, four elements a counter) at
// which step (64 bits): the same numbers on every mesh and every device, with no state to keep.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "collectives/fnv1a.h"
#include "runtime/device/host_device.h"

namespace meshwork {

/// The four words for `key` and the counter (block, step).
MESHWORK_HOST_DEVICE inline std::array<std::uint32_t, 4> philox(std::uint64_t key,
                                                                std::uint64_t block,
                                                                std::uint64_t step) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t c0 = static_cast<std::uint32_t>(block);
  std::uint32_t c1 = static_cast<std::uint32_t>(block >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(step);
  std::uint32_t c3 = static_cast<std::uint32_t>(step >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// The word of element `index`.
MESHWORK_HOST_DEVICE inline std::uint32_t philox_word(std::uint64_t key, std::uint64_t index,
                                                      std::uint64_t step) {
  return philox(key, index / 4, step)[index % 4];
}

/// Dropout at `rate` keeps an element if its word is not below this; 2^32: it keeps none.
[[nodiscard]] inline std::uint64_t least_kept_word(float rate) {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(rate) * 4294967296.0));
}

/// The key of what draws: `seed` and a path, mixed (FNV-1a over the path, then the finaliser of
/// MurmurHash3). Different paths and seeds give unrelated streams.
[[nodiscard]] constexpr std::uint64_t random_key(std::uint64_t seed, std::string_view path) {
  std::uint64_t hash = fnv1a(path);
  hash ^= seed * 0x9E3779B97F4A7C15u;
  hash = (hash ^ (hash >> 33)) * 0xFF51AFD7ED558CCDu;
  hash = (hash ^ (hash >> 33)) * 0xC4CEB9FE1A85EC53u;
  return hash ^ (hash >> 33);
}

}  // namespace meshwork
