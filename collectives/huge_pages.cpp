#include "collectives/huge_pages.h"

#include <sys/mman.h>

#include <span>

namespace meshwork {

namespace {

#ifdef MADV_COLLAPSE
constexpr int make_huge = MADV_COLLAPSE;
#else
constexpr int make_huge = 25;  // of Linux 6.1; the C library's headers may be older
#endif

/// How far it is from `address` to the next huge page.
std::size_t distance_to_page(const std::byte* address) {
  return -reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(huge_page_bytes);
}

/// The whole huge pages of a stretch of memory.
std::span<std::byte> whole_pages(void* data, std::int64_t bytes) {
  auto* const begin = static_cast<std::byte*>(data);
  const auto front = static_cast<std::int64_t>(distance_to_page(begin));
  if (bytes <= front) return {};
  const std::int64_t whole = (bytes - front) / huge_page_bytes * huge_page_bytes;
  return {begin + front, static_cast<std::size_t>(whole)};
}

// A system that has none says so, and pages are small.
void advise(std::span<std::byte> pages, int advice) {
  if (!pages.empty()) (void)::madvise(pages.data(), pages.size(), advice);
}

}  // namespace

// The mapping is a huge page longer than needed and begins wherever the system puts it; the parts
// in front of and behind the aligned piece are given back.
std::byte* reserve_addresses(std::size_t bytes) {
  void* const mapping = ::mmap(nullptr, bytes + huge_page_bytes, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapping);
  const std::size_t front = distance_to_page(begin);
  // Neither fails for whole pages of a mapping.
  if (front > 0) ::munmap(begin, front);
  ::munmap(begin + front + bytes, huge_page_bytes - front);
  return begin + front;
}

void ask_for_huge_pages(void* data, std::int64_t bytes) {
  advise(whole_pages(data, bytes), MADV_HUGEPAGE);
}

void make_huge_pages(void* data, std::int64_t bytes) {
  const std::span<std::byte> pages = whole_pages(data, bytes);
  // What has never been touched is not made.
  for (std::size_t at = 0; at < pages.size(); at += huge_page_bytes) {
    volatile std::byte& first = pages[at];
    first = std::byte{first};
  }
  advise(pages, make_huge);
}

}  // namespace meshwork
