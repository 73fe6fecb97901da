// A block of a tensor, as the counters of Philox that its elements take: four elements that follow
// each other in the global tensor take one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/device/host_device.h"
#include "runtime/device/philox.h"
#include "runtime/shape/block.h"

namespace meshwork {

/// Plain values, for kernels. Of each run of the block (block_runs.h) `counters` counters are
/// looked at, the most that one can touch.
struct DrawnBlock {
  static constexpr int most_dimensions = 8;  // those that count the runs

  std::uint64_t key = 0;
  std::int64_t length = 0, offset = 0, counters = 0;
  std::int64_t count = 0;  // of counters, over all runs
  std::int64_t extents[most_dimensions] = {}, strides[most_dimensions] = {};
  int dimensions = 0;

  /// f(element of the block, its word) for the elements of counter `i` below `count`.
  template <class Function>
  MESHWORK_HOST_DEVICE void each(std::int64_t i, std::int64_t step, const Function& f) const {
    const std::int64_t run = i / counters;
    std::int64_t start = offset, rest = run;
    for (int d = dimensions; d-- > 0;) {
      start += rest % extents[d] * strides[d];
      rest /= extents[d];
    }
    const std::int64_t counter = start / 4 + i % counters;
    const std::int64_t end = start + length;
    if (counter * 4 >= end) return;
    const std::array<std::uint32_t, 4> words =
        philox(key, static_cast<std::uint64_t>(counter), static_cast<std::uint64_t>(step));
    for (int word = 0; word < 4; ++word) {
      const std::int64_t global = counter * 4 + word;
      if (global < start || global >= end) continue;
      f(run * length + (global - start), words[static_cast<std::size_t>(word)]);
    }
  }
};

/// Throws `Error` for a block that splits more than `most_dimensions` dimensions in front of others.
[[nodiscard]] DrawnBlock drawn_block(std::uint64_t key, const Shape& global, const Block& block);

}  // namespace meshwork
