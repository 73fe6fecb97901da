// Blocks: what collectives know of lists of counts and offsets, in elements, one a rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "collectives/collective.h"
#include "collectives/element_type.h"

namespace meshwork {

using Counts = std::span<const std::int64_t>;

[[nodiscard]] inline std::int64_t total_of(Counts counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// Where the block of rank `rank` begins if they lie one after the other.
[[nodiscard]] inline std::int64_t begin_of(Counts counts, int rank) {
  return total_of(counts.first(static_cast<std::size_t>(rank)));
}

/// Where a buffer ends that holds the blocks; empty ones lie nowhere.
[[nodiscard]] std::int64_t extent_of(Counts counts, Counts offsets);

[[nodiscard]] std::int64_t total_of(std::span<const NeighbourBlock> blocks);
[[nodiscard]] std::int64_t extent_of(std::span<const NeighbourBlock> blocks);

/// Where element `element` of `memory` is.
[[nodiscard]] inline std::byte* element_at(void* memory, std::int64_t element, ElementType type) {
  return static_cast<std::byte*>(memory) + element * element_bytes(type);
}
[[nodiscard]] inline const std::byte* element_at(const void* memory, std::int64_t element,
                                                 ElementType type) {
  return static_cast<const std::byte*>(memory) + element * element_bytes(type);
}

/// (ranks - 1) / ranks of `elements`, rounded up: what each of `ranks` sends in a reduce-scatter or
/// an all-gather of so many if all share the work.
[[nodiscard]] constexpr std::int64_t elements_sent_once(std::int64_t elements, std::int64_t ranks) {
  return elements - elements / ranks;
}
/// The same of an all-reduce, which is one after the other, rounded once.
[[nodiscard]] constexpr std::int64_t elements_sent_by_all_reduce(std::int64_t elements,
                                                                 std::int64_t ranks) {
  return elements_sent_once(2 * elements, ranks);
}

}  // namespace meshwork
