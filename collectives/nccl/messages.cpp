#include "collectives/nccl/messages.h"

#include <cstring>
#include <utility>

#include "collectives/blocks.h"

namespace meshwork::nccl {

bool Messages::go_through_host(const DeviceQueues& device, const void* send, const void* receive) {
  sends_through_ = !device.owns(send);
  receives_through_ = !device.owns(receive);
  to_send_ = sends_through_ ? total_of(sends_) : 0;
  to_receive_ = receives_through_ ? total_of(receives_) : 0;
  return to_send_ + to_receive_ > 0;
}

void Messages::bring_to_device(DeviceQueues& device, ElementType type, const void* send,
                               void* receive) {
  const std::int64_t width = element_bytes(type);
  if (const std::int64_t bytes = (to_send_ + to_receive_) * width; bytes > pinned_.bytes()) {
    pinned_ = device.allocate_pinned(bytes);
  }
  landing_.assign(receives_.begin(), receives_.end());
  std::int64_t next = 0;
  if (sends_through_) {
    for (NeighbourBlock& block : sends_) {
      if (block.count == 0) continue;
      std::memcpy(element_at(pinned_.data(), next, type), element_at(send, block.offset, type),
                  static_cast<std::size_t>(block.count * width));
      block.offset = std::exchange(next, next + block.count);
    }
  }
  if (receives_through_) {
    for (NeighbourBlock& block : receives_) {
      block.offset = std::exchange(next, next + block.count);
    }
  }
  send_ = sends_through_ ? pinned_.data() : send;
  receive_ = receives_through_ ? pinned_.data() : receive;
}

void Messages::enqueue(DeviceQueues& device, Clique& clique, int rank, ElementType type) {
  Queue& queue = device.transfers();
  auto* const stream = static_cast<cudaStream_t>(queue.native());
  if (!sends_.empty() && sends_.front().rank == rank && sends_.front().count > 0) {
    queue.start_copy(element_at(receive_, receives_.front().offset, type),
                     element_at(send_, sends_.front().offset, type),
                     sends_.front().count * element_bytes(type));
  }
  Group group;
  for (const NeighbourBlock& block : sends_) {
    if (block.count == 0 || block.rank == rank) continue;
    check_nccl(
        ncclSend(element_at(send_, block.offset, type), static_cast<std::size_t>(block.count),
                 native_type(type), block.rank, clique.native(), stream),
        "ncclSend");
  }
  for (const NeighbourBlock& block : receives_) {
    if (block.count == 0 || block.rank == rank) continue;
    check_nccl(
        ncclRecv(element_at(receive_, block.offset, type), static_cast<std::size_t>(block.count),
                 native_type(type), block.rank, clique.native(), stream),
        "ncclRecv");
  }
  group.end();
}

void Messages::bring_to_host(ElementType type, void* receive) const {
  for (std::size_t i = 0; i < landing_.size(); ++i) {
    if (landing_[i].count == 0) continue;
    std::memcpy(element_at(receive, landing_[i].offset, type),
                element_at(receive_, receives_[i].offset, type),
                static_cast<std::size_t>(landing_[i].count * element_bytes(type)));
  }
}

}  // namespace meshwork::nccl
