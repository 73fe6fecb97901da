// FeedRing: something that the host gives a device anew in every step, on its way there while the
// device still works on the steps before.
//
// The host copies it to pinned memory and goes on. From there it travels in the device's queue of
// feeds to a place of its own on the device, beside the kernels of earlier steps, and from that
// place, in the queue of kernels, to where the step's kernels expect it. What is small is not worth
// two copies and goes to its destination in the queue of kernels. There are a few of each place, in
// turns: the host waits only when it is as many steps ahead.
//
// A device that computes in the host's memory is given it directly.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "runtime/device/device.h"

namespace meshwork {

class FeedRing {
 public:
  FeedRing() = default;  // of nothing
  /// For `bytes` at `destination`, in memory of `device`, which outlives the ring.
  FeedRing(Device& device, void* destination, std::int64_t bytes);

  /// What that takes of the memory of a device that is apart from the host's, beside `destination`.
  [[nodiscard]] static std::int64_t bytes_ahead(std::int64_t bytes);

  /// Kernels that are started from now on find what is at `host` now; those before find what was
  /// there before. `host` is free again.
  void feed(const void* host);

 private:
  struct Turn {
    Memory pinned, ahead;                   // `ahead` on the device; none for what is small
    std::unique_ptr<Mark> arrived, placed;  // pinned is free again; ahead is
  };

  Device* device_ = nullptr;
  void* destination_ = nullptr;
  std::int64_t bytes_ = 0;
  static constexpr std::size_t turn_count = 3;
  std::array<Turn, turn_count> turns_;
  std::size_t next_ = 0;
};

}  // namespace meshwork
