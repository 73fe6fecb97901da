// Huge pages: 2 MiB of memory behind one entry of the processor's table of addresses.
//
// A step walks over its parameters, gradients and slots once, so that in pages of 4 KiB nearly
// every page is looked up anew: a fraction of a microsecond each in a virtual machine, as long as
// reading its bytes. Systems hand out huge pages for private memory on request, and for shared
// memory hardly ever by themselves; Linux from 6.1 on makes them of either, at once, when it is
// told to.
//
// All of it is advice: where a system has none to give, pages are small and everything works.
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwork {

inline constexpr std::int64_t huge_page_bytes = 2 << 20;

/// Smaller stretches of memory are not worth a huge page.
inline constexpr std::int64_t least_bytes_for_huge_pages = 256 << 10;

/// `bytes`, or as many as fill whole huge pages if it is worth that.
[[nodiscard]] constexpr std::int64_t rounded_to_huge_pages(std::int64_t bytes) {
  if (bytes < least_bytes_for_huge_pages) return bytes;
  return (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
}

/// `bytes` of addresses that begin at a huge page and have no memory behind them yet: for mmap with
/// MAP_FIXED, then munmap. Null if the system has none left.
[[nodiscard]] std::byte* reserve_addresses(std::size_t bytes);

// Of the whole huge pages between `data` and `data` + `bytes`:

/// Those that have not been written to yet come as huge pages when they are. Private memory only,
/// unless the system says otherwise.
void ask_for_huge_pages(void* data, std::int64_t bytes);

/// They become huge pages now, of private or shared memory. What they hold stays; nobody writes to
/// them meanwhile.
void make_huge_pages(void* data, std::int64_t bytes);

}  // namespace meshwork
