// Messages between pairs of ranks as one operation of NCCL: all-to-alls and exchanges.
//
// NCCL reaches the memory of its GPU and pinned memory of the host. What lies in other memory of
// the host goes through pinned memory: copied there before, and from there when it has arrived.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/collective.h"
#include "collectives/device_queues.h"
#include "collectives/element_type.h"
#include "collectives/nccl/clique.h"

namespace meshwork::nccl {

/// The messages of the call in progress, kept so that a call allocates only the first time. Used in
/// the order of the functions.
class Messages {
 public:
  /// Blocks to and from ranks of the clique. The calling rank may be the first of both lists: what
  /// goes to itself is copied.
  void take(const std::vector<NeighbourBlock>& sends, const std::vector<NeighbourBlock>& receives) {
    sends_.assign(sends.begin(), sends.end());
    receives_.assign(receives.begin(), receives.end());
  }

  /// Whether `bring_to_device` writes to the pinned memory, which the operation before may use.
  [[nodiscard]] bool go_through_host(const DeviceQueues& device, const void* send,
                                     const void* receive);
  void bring_to_device(DeviceQueues& device, ElementType type, const void* send, void* receive);
  void enqueue(DeviceQueues& device, Clique& clique, int rank, ElementType type);
  /// Whether something is to be brought on, when it is there.
  [[nodiscard]] bool arrive_on_host() const { return receives_through_ && to_receive_ > 0; }
  void bring_to_host(ElementType type, void* receive) const;

 private:
  std::vector<NeighbourBlock> sends_, receives_;  // as NCCL finds and leaves them
  std::vector<NeighbourBlock> landing_;           // the receives as they were listed
  bool sends_through_ = false, receives_through_ = false;
  std::int64_t to_send_ = 0, to_receive_ = 0;  // elements of the host's memory
  const void* send_ = nullptr;
  void* receive_ = nullptr;
  Memory pinned_;
};

}  // namespace meshwork::nccl
