#include "collectives/trace.h"

#include <algorithm>

namespace meshwork {

const std::string* CollectiveTrace::label(const std::string& text) {
  const std::scoped_lock lock(labels_mutex_);
  return &*labels_.insert(text).first;
}

std::shared_ptr<const std::string> CollectiveTrace::passing_label(const std::string& text) {
  return {new std::string(text),
          [this](const std::string* label) { retire(std::unique_ptr<const std::string>(label)); }};
}

bool CollectiveTrace::names(const std::string* label) const {
  return std::any_of(entered_.begin(), entered_.end(), [&](const Entry& entry) {
    return entry.label.load(std::memory_order_relaxed) == label;
  });
}

void CollectiveTrace::retire(std::unique_ptr<const std::string> label) {
  const std::scoped_lock lock(labels_mutex_);
  if (!names(label.get())) return;
  retired_.push_back(std::move(label));
  if (retired_.size() < sweep_at_) return;
  std::erase_if(retired_, [&](const auto& old) { return !names(old.get()); });
  sweep_at_ = 2 * retired_.size() + 64;
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
  const std::scoped_lock lock(labels_mutex_);
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
  const std::scoped_lock lock(labels_mutex_);
  const std::string* activity = activity_.load(std::memory_order_acquire);
  return activity != nullptr ? *activity : std::string();
}

}  // namespace meshwork
