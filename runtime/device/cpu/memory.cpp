#include "runtime/device/cpu/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "collectives/error.h"
#include "collectives/huge_pages.h"

namespace meshwork::cpu {

namespace {

constexpr std::int64_t line_bytes = 64;

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

// What libraries may still take of the addresses that the process may have: their code, which Open
// MPI loads as it is used, kernels that oneDNN makes. They end with a segmentation fault where they
// get no memory.
constexpr std::int64_t kept_for_libraries = std::int64_t{96} << 20;

/// Of addresses, that the process has.
std::int64_t addresses() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

/// Whether `bytes` more leave as many addresses as libraries may need.
bool leaves_addresses(std::int64_t bytes) {
  struct rlimit limit {};
  return ::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         static_cast<std::int64_t>(limit.rlim_cur) - kept_for_libraries - addresses() >= bytes;
}

std::string in_words(std::int64_t bytes) {
  return fmt::format("{} bytes ({:.1f} MiB)", bytes, static_cast<double>(bytes) / (1 << 20));
}

/// What the process itself is limited to, as `ulimit -v` or a batch system does; "" if it is not.
std::string limit_of_process() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format(
      "this process may have {} of addresses (ulimit -v, RLIMIT_AS), of which it has {} and keeps "
      "{} for libraries, and ",
      in_words(static_cast<std::int64_t>(limit.rlim_cur)), in_words(addresses()),
      in_words(kept_for_libraries));
}

[[noreturn]] void fail_for(std::int64_t bytes, std::int64_t available) {
  fail(
      "{} of memory were asked for; {}this node has {} free. A smaller batch_size, or more ranks "
      "on more nodes, need less on each",
      in_words(bytes), limit_of_process(), in_words(available));
}

Memory allocate_small(std::int64_t bytes) {
  const auto rounded = static_cast<std::size_t>((bytes + line_bytes - 1) / line_bytes * line_bytes);
  void* data = std::aligned_alloc(line_bytes, rounded);
  if (data == nullptr) fail_for(bytes, available_bytes());
  std::memset(data, 0, rounded);
  return {data, bytes, [](void* memory) { std::free(memory); }};
}

Memory allocate_large(std::int64_t bytes) {
  const std::int64_t available = available_bytes();
  // The system hands out more than it has and kills the process when the pages are touched.
  if (bytes > available) fail_for(bytes, available);
  const auto length = static_cast<std::size_t>(rounded_to_huge_pages(bytes));
  std::byte* const addresses = reserve_addresses(length);
  if (addresses == nullptr) fail_for(bytes, available);
  void* const data = ::mmap(addresses, length, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (data == MAP_FAILED) fail_for(bytes, available);
  ask_for_huge_pages(data, static_cast<std::int64_t>(length));
  return {data, bytes, [length](void* memory) {
            // Fails only for an address that is no mapping.
            (void)::munmap(memory, length);
          }};
}

}  // namespace

Memory allocate(std::int64_t bytes) {
  if (bytes < 0) internal_error(fmt::format("{} bytes of memory were asked for", bytes));
  if (bytes == 0) return {};
  if (!leaves_addresses(bytes)) fail_for(bytes, available_bytes());
  return bytes < least_bytes_for_huge_pages ? allocate_small(bytes) : allocate_large(bytes);
}

}  // namespace meshwork::cpu
