// The counters of a rank in the memory of a group (shared_group.h), and how they are read and
// written.
#pragma once

#include <atomic>
#include <cstdint>

namespace meshwork {

struct SharedCounter {
  // Rounds that this rank has staged, reduced, and consumed; calls that it has finished.
  static constexpr int staged = 0, reduced = 1, consumed = 2, finished = 3, count = 4;
  // Processors fetch cache lines in pairs.
  static constexpr std::int64_t stride = 128;
};

inline std::uint64_t load(std::uint64_t& counter) {
  return std::atomic_ref<std::uint64_t>(counter).load(std::memory_order_acquire);
}
inline void store(std::uint64_t& counter, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(counter).store(value, std::memory_order_release);
}

}  // namespace meshwork
