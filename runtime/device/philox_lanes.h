// The rounds of philox.h on many counters at once, which a processor does side by side: a loop over
// counters that calls `philox` is not vectorised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace meshwork {

/// words[w][c] is word w of counter c; the upper 32 bits of each hold anything. Words lie in 64
/// bits, of which products take the lower half. Words of 32 bits would be widened for each product
/// and narrowed after it, which takes twice the time.
template <std::size_t count>
using PhiloxLanes = std::array<std::array<std::uint64_t, count>, 4>;

namespace philox_detail {

#if defined(__AVX512F__)
constexpr std::size_t width = 8;
#elif defined(__AVX2__)
constexpr std::size_t width = 4;
#else
constexpr std::size_t width = 2;
#endif
using Words [[gnu::vector_size(width * sizeof(std::uint64_t))]] = std::uint64_t;
/// The same where an array of numbers holds them.
using StoredWords [[gnu::vector_size(width * sizeof(std::uint64_t)),
                    gnu::aligned(alignof(std::uint64_t)), gnu::may_alias]] = std::uint64_t;

/// The lower halves of `words` times a `factor` of 32 bits. Without its instruction a compiler
/// multiplies 64 bits, by three.
inline Words product(const Words& words, std::uint32_t factor) {
  const Words factors = Words{} + factor;
#if defined(__AVX512F__)
  // GCC 12 warns of the mask of _mm512_mul_epu32, which it leaves undefined.
  return Words(_mm512_maskz_mul_epu32(0xff, __m512i(words), __m512i(factors)));
#elif defined(__AVX2__)
  return Words(_mm256_mul_epu32(__m256i(words), __m256i(factors)));
#elif defined(__SSE2__)
  return Words(_mm_mul_epu32(__m128i(words), __m128i(factors)));
#else
  return (words & 0xffffffffu) * factors;
#endif
}

}  // namespace philox_detail

/// Puts the four words for `key` in place of the counters, which stand there as words of 32 bits,
/// the least significant first: of philox(key, block, step) block, block >> 32, step, step >> 32.
template <std::size_t count>
void philox_lanes(std::uint64_t key, PhiloxLanes<count>& words) {
  using philox_detail::product, philox_detail::StoredWords, philox_detail::Words;
  constexpr std::size_t vectors = count / philox_detail::width;
  static_assert(count % philox_detail::width == 0);
  std::array<std::array<Words, vectors>, 4> all;
  for (std::size_t w = 0; w < all.size(); ++w) {
    const StoredWords* const from = reinterpret_cast<const StoredWords*>(words[w].data());
    for (std::size_t v = 0; v < vectors; ++v) all[w][v] = from[v];
  }
  auto& [c0, c1, c2, c3] = all;
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) {
      const Words p0 = product(c0[v], 0xD2511F53u), p1 = product(c2[v], 0xCD9E8D57u);
      c0[v] = (p1 >> 32) ^ c1[v] ^ k0;
      c2[v] = (p0 >> 32) ^ c3[v] ^ k1;
      c1[v] = p1;
      c3[v] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (std::size_t w = 0; w < all.size(); ++w) {
    StoredWords* const to = reinterpret_cast<StoredWords*>(words[w].data());
    for (std::size_t v = 0; v < vectors; ++v) to[v] = all[w][v];
  }
}

}  // namespace meshwork
