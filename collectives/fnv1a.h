// FNV-1a, a hash of 64 bits (Fowler, Noll and Vo, RFC 9923): the same on every rank and in every
// build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace meshwork {

/// Of no bytes.
constexpr std::uint64_t fnv1a_of_nothing = 0xcbf29ce484222325U;

/// `hash`, of what went before, with `byte` behind.
[[nodiscard]] constexpr std::uint64_t fnv1a_with(std::uint64_t hash, unsigned char byte) {
  return (hash ^ byte) * 0x100000001b3U;
}

[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = fnv1a_of_nothing;
  for (const char c : text) hash = fnv1a_with(hash, static_cast<unsigned char>(c));
  return hash;
}

/// Of bytes, behind what `hash` is of.
[[nodiscard]] inline std::uint64_t fnv1a(std::span<const std::byte> bytes,
                                         std::uint64_t hash = fnv1a_of_nothing) {
  for (const std::byte byte : bytes) hash = fnv1a_with(hash, std::to_integer<unsigned char>(byte));
  return hash;
}

}  // namespace meshwork
