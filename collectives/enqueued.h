// Enqueued: the operations between ranks that a device works off on its own, numbered from 1 in the
// order in which they were started, and done in that order.
//
// The thread that starts them goes on, so it cannot say which of them the device is waiting in. The
// device says it: behind each operation it counts, in memory that the host reads. An operation that
// was captured is started whenever the captured work is, and counted each time that it is done.
#pragma once

#include <atomic>
#include <cstdint>

#include "collectives/device_queues.h"
#include "collectives/memory.h"

namespace meshwork {

class Enqueued {
 public:
  /// `device` outlives it.
  explicit Enqueued(DeviceQueues& device)
      : device_(device),
        memory_(device.allocate_pinned(sizeof(std::uint64_t))),
        done_(*static_cast<std::uint64_t*>(memory_.data())) {}
  Enqueued(const Enqueued&) = delete;
  Enqueued& operator=(const Enqueued&) = delete;

  /// One more was started in `queue`, the same for all, or captured.
  void add(Queue& queue) {
    ++(is_capturing() ? captured_ : started_);
    queue.start_count(done_);
  }
  /// As many, which were captured, are started.
  void add_captured(std::uint64_t operations) { started_ += operations; }
  [[nodiscard]] bool is_capturing() const { return device_.is_capturing(); }

  // For the thread that starts them.

  /// How many were started: the number of the last one.
  [[nodiscard]] std::uint64_t started() const { return started_; }
  /// How many were captured so far.
  [[nodiscard]] std::uint64_t captured() const { return captured_; }
  /// How many are done. For any thread.
  [[nodiscard]] std::uint64_t done() const {
    return std::atomic_ref<std::uint64_t>(done_).load(std::memory_order_acquire);
  }

 private:
  DeviceQueues& device_;
  Memory memory_;
  std::uint64_t& done_;
  std::uint64_t started_ = 0, captured_ = 0;
};

}  // namespace meshwork
