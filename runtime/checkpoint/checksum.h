// Checksums: what tells a whole checkpoint from a damaged one.
//
// Two kinds, for two questions.
//
// *Hash*: XXH64 with seed 0 (Y. Collet, xxhash_spec.md, "XXH64 algorithm description") of the bytes
// of a region, in order. It says where a file is damaged, and any tool that knows XXH64 can check
// it; but it belongs to the borders of the region.
//
// *Sum*: over the elements of a float32 tensor, modulo 2^64,
//
//     sum_i mix(i * 0x9E3779B97F4A7C15 + bits(x_i)),
//
// i being the row-major index in the whole tensor and mix the finalizer of splitmix64 (Steele, Lea
// and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). Since it adds up,
// parts of it can be formed for any partition of the tensor, and their total is always the same:
// ranks on another mesh than the writer's verify what they read by one reduction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/mesh/layout.h"

namespace meshwork {

/// XXH64 of bytes that come in pieces. Runs at several GB/s: the memory bounds it.
class Hash {
 public:
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t value() const;

 private:
  void take(const std::byte* stripe);

  static constexpr std::size_t stripe_bytes = 32;
  std::array<std::uint64_t, 4> lanes_{0x60EA27EEADC0B5D6U, 0xC2B2AE3D27D4EB4FU, 0,
                                      0x61C8864E7A143579U};
  std::array<std::byte, stripe_bytes> rest_{};
  std::uint64_t count_ = 0;  // bytes so far; the last count_ % stripe_bytes are in rest_
};

/// The part of the sum that the elements of `block` of a tensor of `shape` give; `values` are they,
/// row-major.
[[nodiscard]] std::uint64_t sum_of(const Shape& shape, const Block& block,
                                   std::span<const float> values);

}  // namespace meshwork
