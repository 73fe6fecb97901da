#include "collectives/copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace meshwork {

#if defined(__SSE2__)
namespace {

constexpr std::int64_t line_bytes = 64;

void stream_line(std::byte* to, const std::byte* from) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#else
  for (int i = 0; i < 4; ++i) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i,
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i));
  }
#endif
}

}  // namespace

void stream_bytes(void* to, const void* from, std::int64_t bytes) {
  auto* destination = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const auto head = std::min(
      bytes, static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(to) % line_bytes));
  copy_bytes(destination, source, head);
  std::int64_t at = head;
  for (; at + line_bytes <= bytes; at += line_bytes) stream_line(destination + at, source + at);
  copy_bytes(destination + at, source + at, bytes - at);
  _mm_sfence();
}
#else
void stream_bytes(void* to, const void* from, std::int64_t bytes) {
  copy_bytes(to, from, bytes);
}
#endif

void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

Copy copy_of(std::int64_t bytes) {
  // About what a core has of the last cache; measured, as in tests/benchmarks/collectives.cpp.
  constexpr std::int64_t share_of_cache = 4 << 20;
  return bytes >= share_of_cache ? stream_bytes : copy_bytes;
}

}  // namespace meshwork
