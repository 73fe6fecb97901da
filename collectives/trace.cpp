#include "collectives/trace.h"

#include <algorithm>

namespace meshwork {

const std::string* CollectiveTrace::label(const std::string& text) {
  const std::scoped_lock lock(labels_mutex_);
  return &*labels_.insert(text).first;
}

std::vector<std::string> CollectiveTrace::last(std::uint64_t position, std::size_t count) const {
  const std::uint64_t newest = sequence_of(position);
  const std::uint64_t wanted = std::min<std::uint64_t>({newest, count, kept});
  std::vector<std::string> labels;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const std::string* label = entered_[(newest - i) % kept].load(std::memory_order_acquire);
    labels.push_back(label != nullptr ? *label : std::string("?"));
  }
  return labels;
}

std::string CollectiveTrace::doing() const {
  const std::string* activity = activity_.load(std::memory_order_acquire);
  return activity != nullptr ? *activity : std::string();
}

}  // namespace meshwork
