#include "runtime/train/engine/feed_ring.h"

#include <cstring>

namespace meshwork {

namespace {
constexpr std::int64_t small_bytes = 4096;
}  // namespace

FeedRing::FeedRing(Device& device, void* destination, std::int64_t bytes)
    : device_(&device), destination_(destination), bytes_(bytes) {
  if (device.traits().computes_in_host_memory || bytes == 0) return;
  for (Turn& turn : turns_) {
    turn.pinned = device.queues().allocate_pinned(bytes);
    if (bytes > small_bytes) turn.ahead = device.allocate(bytes);
    turn.arrived = device.queues().make_mark();
    turn.placed = device.queues().make_mark();
  }
}

std::int64_t FeedRing::bytes_ahead(std::int64_t bytes) {
  return bytes > small_bytes ? bytes * std::int64_t{turn_count} : 0;
}

void FeedRing::feed(const void* host) {
  if (bytes_ == 0) return;
  if (device_->traits().computes_in_host_memory) {
    device_->copy_in(destination_, host, bytes_);
    return;
  }
  Turn& turn = turns_[next_];
  next_ = (next_ + 1) % turns_.size();
  Queue& kernels = device_->queues().kernels();
  turn.arrived->wait();
  std::memcpy(turn.pinned.data(), host, static_cast<std::size_t>(bytes_));
  if (turn.ahead.data() == nullptr) {
    kernels.start_copy(destination_, turn.pinned.data(), bytes_);
    kernels.record(*turn.arrived);
    return;
  }
  Queue& feeds = device_->queues().feeds();
  feeds.wait_for(*turn.placed);
  feeds.start_copy(turn.ahead.data(), turn.pinned.data(), bytes_);
  feeds.record(*turn.arrived);
  kernels.wait_for(*turn.arrived);
  kernels.start_copy(destination_, turn.ahead.data(), bytes_);
  kernels.record(*turn.placed);
}

}  // namespace meshwork
