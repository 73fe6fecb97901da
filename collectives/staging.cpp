#include "collectives/staging.h"

namespace meshwork {

void Staging::reserve(std::int64_t bytes) {
  if (bytes > memory_.bytes()) memory_ = device_.allocate_pinned(bytes);
  static_cast<void>(mark(pieces_of(bytes) - 1));
}

std::byte* Staging::take(std::int64_t bytes) {
  reserve(bytes);
  return memory_.bytes_at(0);
}

Mark& Staging::mark(std::int64_t piece) {
  while (std::ssize(marks_) <= piece) marks_.push_back(device_.make_mark());
  return *marks_[static_cast<std::size_t>(piece)];
}

}  // namespace meshwork
