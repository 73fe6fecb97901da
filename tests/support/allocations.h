// Counts what a test program allocates: including this file replaces the global operator new.
//
// Include it in one source file of a program that has one claim about allocations. All forms are
// replaced, since those of a sanitizer do not mix with these. Not counted is what oneDNN takes for
// records of its own in each run of a matmul, and what anybody takes with malloc. Nothing is
// inlined, lest the compiler takes the two halves for mismatched.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace meshwork::test {

/// How often operator new was called so far.
inline std::atomic<long> allocations{0};

// `caller` is an address in the code that asks.
inline void* counted_allocation(std::size_t bytes, void* caller) {
  Dl_info library;
  if (dladdr(caller, &library) == 0 || std::strstr(library.dli_fname, "libdnnl") == nullptr) {
    ++allocations;
  }
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
