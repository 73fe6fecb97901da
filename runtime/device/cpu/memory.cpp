#include "runtime/device/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "collectives/error.h"

namespace meshwork::cpu {

namespace {

constexpr std::int64_t line_bytes = 64;
constexpr std::int64_t huge_page_bytes = 2 * 1024 * 1024;

/// Bytes that the system can give without swapping; the largest number if it does not say.
std::int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    std::int64_t kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  }
  return std::numeric_limits<std::int64_t>::max();
}

[[noreturn]] void fail_for(std::int64_t bytes, std::int64_t available) {
  constexpr double mebibyte = 1024.0 * 1024.0;
  fail(
      "{} bytes ({:.1f} MiB) of memory were asked for; this node has {} ({:.1f} MiB) free. A "
      "smaller "
      "batch_size, or more ranks on more nodes, need less on each",
      bytes, static_cast<double>(bytes) / mebibyte, available,
      static_cast<double>(available) / mebibyte);
}

Memory allocate_small(std::int64_t bytes) {
  const auto rounded = static_cast<std::size_t>((bytes + line_bytes - 1) / line_bytes * line_bytes);
  void* data = std::aligned_alloc(line_bytes, rounded);
  if (data == nullptr) fail_for(bytes, available_bytes());
  std::memset(data, 0, rounded);
  return {data, bytes, [](void* memory) { std::free(memory); }};
}

// The mapping is a huge page longer than needed and begins wherever the system puts it; the parts
// in front of and behind the aligned piece are given back.
Memory allocate_large(std::int64_t bytes) {
  const std::int64_t available = available_bytes();
  // The system hands out more than it has and kills the process when the pages are touched.
  if (bytes > available) fail_for(bytes, available);
  const std::int64_t length = (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
  const auto mapped = static_cast<std::size_t>(length + huge_page_bytes);
  void* mapping =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) fail_for(bytes, available);
  auto* begin = static_cast<std::byte*>(mapping);
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(begin) %
                                              static_cast<std::uintptr_t>(huge_page_bytes));
  std::byte* data = begin + (past == 0 ? 0 : huge_page_bytes - past);
  const std::int64_t front = data - begin, behind = huge_page_bytes - front;
  if ((front > 0 && ::munmap(begin, static_cast<std::size_t>(front)) != 0) ||
      (behind > 0 && ::munmap(data + length, static_cast<std::size_t>(behind)) != 0)) {
    internal_error("the ends of a memory mapping could not be given back");
  }
  // Advice only: a system without huge pages refuses it, and ordinary ones do.
  static_cast<void>(::madvise(data, static_cast<std::size_t>(length), MADV_HUGEPAGE));
  return {data, bytes, [length](void* memory) {
            // Fails only for an address that is no mapping.
            static_cast<void>(::munmap(memory, static_cast<std::size_t>(length)));
          }};
}

}  // namespace

Memory allocate(std::int64_t bytes) {
  if (bytes < 0) internal_error(fmt::format("{} bytes of memory were asked for", bytes));
  if (bytes == 0) return {};
  return bytes < huge_page_bytes ? allocate_small(bytes) : allocate_large(bytes);
}

}  // namespace meshwork::cpu
