// Counts what a test program allocates: including this file replaces the global operator new.
//
// Include it in one source file of a program that has one claim about allocations. All forms are
// replaced, since those of a sanitizer do not mix with these. Not counted is what oneDNN takes for
// records of its own in each run of a matmul, and what anybody takes with malloc. Nothing is
// inlined, lest the compiler takes the two halves for mismatched.
#pragma once

#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace meshwork::test {

/// How often operator new was called so far.
inline std::atomic<long> allocations{0};

// Where oneDNN's library lies.
struct AddressRange {
  std::uintptr_t begin = UINTPTR_MAX;
  std::uintptr_t end = 0;
};
inline AddressRange range_of_onednn() {
  AddressRange range;
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* found) {
        if (std::strstr(library->dlpi_name, "libdnnl") == nullptr) return 0;
        auto& range = *static_cast<AddressRange*>(found);
        for (int i = 0; i < library->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = library->dlpi_phdr[i];
          if (part.p_type != PT_LOAD) continue;
          range.begin = std::min<std::uintptr_t>(range.begin, library->dlpi_addr + part.p_vaddr);
          range.end =
              std::max<std::uintptr_t>(range.end, library->dlpi_addr + part.p_vaddr + part.p_memsz);
        }
        return 1;
      },
      &range);
  return range;
}

// `caller` is an address in the code that asks. It is compared with a range found once: dladdr looks through all
// symbols of a library, which made it nearly all that the tests of kernels did.
inline void* counted_allocation(std::size_t bytes, void* caller) {
  static const AddressRange onednn = range_of_onednn();
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (address < onednn.begin || address >= onednn.end) ++allocations;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace meshwork::test

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return meshwork::test::counted_allocation(bytes, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
  return meshwork::test::counted_allocation(bytes, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return meshwork::test::counted_allocation(bytes, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return meshwork::test::counted_allocation(bytes, __builtin_return_address(0));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
