#include "collectives/call_payload.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "collectives/huge_pages.h"

namespace meshwork {

namespace {

constexpr std::size_t least_kept = 64 << 10;  // bytes; malloc itself keeps smaller ones
constexpr std::size_t most_kept = 8;
constexpr std::size_t alignment = 64;

}  // namespace

void CallMemory::Free::operator()(std::byte* data) const noexcept {
  std::free(data);
}

std::shared_ptr<std::byte> CallMemory::allocate(std::size_t bytes) {
  Owner data;
  std::size_t room = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  if (bytes >= least_kept) {
    const std::scoped_lock lock(mutex_);
    // The smallest that is large enough, and not wastefully so.
    auto best = kept_.end();
    for (auto one = kept_.begin(); one != kept_.end(); ++one) {
      if (one->bytes < bytes || one->bytes / 2 > bytes) continue;
      if (best == kept_.end() || one->bytes < best->bytes) best = one;
    }
    if (best != kept_.end()) {
      data = std::move(best->data);
      room = best->bytes;
      kept_.erase(best);
    }
  }
  if (!data) {
    const bool is_huge = room >= static_cast<std::size_t>(huge_page_bytes);
    if (is_huge) {
      room = static_cast<std::size_t>(rounded_to_huge_pages(static_cast<std::int64_t>(room)));
    }
    const auto border = is_huge ? static_cast<std::size_t>(huge_page_bytes) : alignment;
    data.reset(static_cast<std::byte*>(std::aligned_alloc(border, room)));
    if (!data) throw std::bad_alloc();
    if (is_huge) ask_for_huge_pages(data.get(), static_cast<std::int64_t>(room));
  }
  if (room < least_kept) return {data.release(), Free{}};
  return {data.release(), [memory = weak_from_this(), room](std::byte* released) {
            Owner owner(released);
            if (const std::shared_ptr<CallMemory> alive = memory.lock()) {
              alive->take_back(std::move(owner), room);
            }
          }};
}

void CallMemory::take_back(Owner data, std::size_t bytes) noexcept {
  Kept oldest{0, nullptr};
  const std::scoped_lock lock(mutex_);
  try {
    kept_.push_back({bytes, std::move(data)});
  } catch (const std::bad_alloc&) {
    return;  // and the block is freed
  }
  if (kept_.size() > most_kept) {
    oldest = std::move(kept_.front());
    kept_.erase(kept_.begin());
  }
}

void CallMemory::trim() noexcept {
  std::vector<Kept> released;  // without the lock
  const std::scoped_lock lock(mutex_);
  std::swap(released, kept_);
}

std::size_t CallMemory::kept() const {
  const std::scoped_lock lock(mutex_);
  std::size_t bytes = 0;
  for (const Kept& one : kept_) bytes += one.bytes;
  return bytes;
}

}  // namespace meshwork
