#include "collectives/trace.h"

#include <algorithm>

namespace meshwork {

const std::string* CollectiveTrace::label(const std::string& text) {
  const std::scoped_lock lock(labels_mutex_);
  return &*labels_.insert(text).first;
}

std::uint64_t CollectiveTrace::position() const {
  const std::uint64_t of_thread = position_.load(std::memory_order_acquire);
  const Enqueued* const enqueued = enqueued_.load(std::memory_order_acquire);
  if (enqueued == nullptr) return of_thread;
  const std::uint64_t done = enqueued->done();
  const std::uint64_t newest = sequence_of(of_thread);
  std::uint64_t first_not_done = 0;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(newest, kept); ++i) {
    const std::uint64_t operations =
        entered_[(newest - i) % kept].operations.load(std::memory_order_acquire);
    if (operations == 0) continue;
    if (operations <= done) break;
    first_not_done = newest - i;
  }
  return first_not_done == 0 ? of_thread : 2 * first_not_done + 1;
}

std::vector<std::string> CollectiveTrace::last(std::uint64_t position, std::size_t count) const {
  const std::uint64_t newest = sequence_of(position);
  const std::uint64_t wanted = std::min<std::uint64_t>({newest, count, kept});
  std::vector<std::string> labels;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const std::string* label = entered_[(newest - i) % kept].label.load(std::memory_order_acquire);
    labels.push_back(label != nullptr ? *label : std::string("?"));
  }
  return labels;
}

std::string CollectiveTrace::doing() const {
  const std::string* activity = activity_.load(std::memory_order_acquire);
  return activity != nullptr ? *activity : std::string();
}

}  // namespace meshwork
