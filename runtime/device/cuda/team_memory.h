// Where the threads of a block leave values for each other.
//
// A block holds one team of `block_threads` threads or several narrow ones. Teams of one block run
// at their own pace: a warp synchronises with itself alone. So no byte belongs to two teams, and
// each team has a stretch of its own, whatever type of value it leaves there.
#pragma once

#include <cstddef>

#include "runtime/device/cuda/parts.h"
#include "runtime/device/host_device.h"

namespace meshwork::cuda {

struct alignas(16) TeamMemory {
  static constexpr std::size_t value_bytes = 24;  // the largest value
  unsigned char bytes[block_threads * value_bytes];
};

/// The values of the threads [first, first + group) of a block, a team: one for each.
template <int group, class Value>
[[nodiscard]] MESHWORK_HOST_DEVICE Value* team_values(TeamMemory& memory, int first) {
  static_assert(sizeof(Value) <= TeamMemory::value_bytes);
  static_assert(group * TeamMemory::value_bytes % alignof(TeamMemory) == 0);
  return reinterpret_cast<Value*>(memory.bytes +
                                  static_cast<std::size_t>(first) * TeamMemory::value_bytes);
}

}  // namespace meshwork::cuda
