// Enqueued: the operations between ranks that a device works off on its own, numbered from 1 in the
// order in which they were started, and done in that order.
//
// The thread that starts them goes on, so it cannot say which of them the device is waiting in. The
// device says it: behind each operation it counts, in memory that the host reads. An operation that
// was captured is counted each time that it is done.
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
      : memory_(device.allocate_pinned(sizeof(std::uint64_t))),
        done_(*static_cast<std::uint64_t*>(memory_.data())) {}
  Enqueued(const Enqueued&) = delete;
  Enqueued& operator=(const Enqueued&) = delete;

  /// One more was started in `queue`, the same for all. Where that is captured, it stands for the
  /// first time that it will be started.
  void add(Queue& queue) {
    ++started_;
    queue.start_count(done_);
  }
  /// As many, which were captured, are started once more.
  void add_again(std::uint64_t operations) { started_ += operations; }
  /// As many, the last that were captured, will not be started.
  void take_back(std::uint64_t operations) { started_ -= operations; }

  /// How many were started: the number of the last one. For the thread that starts them.
  [[nodiscard]] std::uint64_t started() const { return started_; }
  /// How many are done. For any thread.
  [[nodiscard]] std::uint64_t done() const {
    return std::atomic_ref<std::uint64_t>(done_).load(std::memory_order_acquire);
  }

 private:
  Memory memory_;
  std::uint64_t& done_;
  std::uint64_t started_ = 0;
};

}  // namespace meshwork
