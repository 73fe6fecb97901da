// The started reductions of a staged transport, from their start until they were waited for.
//
// A reduction is copied to pinned memory of its own, in pieces, as soon as the kernels that wrote
// its buffer are done. The inner transport is told of it (*handed on*) when it has arrived: not by
// itself, but when `hand_on` is called, at points of the program that are the same on all ranks.
// Waiting for it has the result copied back and lets the kernels that come after wait for that.
//
// Where the inner transport reaches the device's memory there are no copies, and the mark behind
// the kernels is all that has to be waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/device_queues.h"
#include "collectives/transport.h"

namespace meshwork {

class StartedReductions {
 public:
  /// Both outlive this.
  StartedReductions(Transport& inner, DeviceQueues& device, std::int64_t piece_bytes, bool copies);

  /// Takes now what reductions of so many bytes want that are under way at once.
  void reserve(std::span<const std::int64_t> bytes);

  /// `inner` is what the inner transport made of it, for buffers of the host.
  [[nodiscard]] Compiled compile(const Communicator& communicator, const AllReduce& what,
                                 Compiled inner);

  /// Tells the inner transport of every reduction that was started, in order, when it has arrived.
  void hand_on();

 private:
  class Started;
  /// Pinned memory for one that is under way.
  struct Room {
    Memory memory;
    bool is_taken = false;
  };

  /// The smallest room for a reduction of `bytes` that `is_free`; a new one if there is none.
  [[nodiscard]] Room& room_for(std::int64_t bytes, const std::function<bool(const Room&)>& is_free);

  Transport& inner_;
  DeviceQueues& device_;
  std::int64_t piece_bytes_;
  bool copies_;
  std::unique_ptr<Mark> behind_kernels_;
  std::vector<std::unique_ptr<Room>> rooms_;  // the smallest first
  std::vector<Started*> not_handed_on_;
  std::size_t startable_ = 0;  // that were compiled and may be in it
};

}  // namespace meshwork
