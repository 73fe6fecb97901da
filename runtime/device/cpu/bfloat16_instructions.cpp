#include "runtime/device/cpu/bfloat16_instructions.h"

#include <array>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace meshwork::cpu {

namespace {

bool is_intel_with_avx512_fp16() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  std::array<char, 12> vendor{};
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return false;
  std::memcpy(vendor.data(), &b, 4);
  std::memcpy(vendor.data() + 4, &d, 4);
  std::memcpy(vendor.data() + 8, &c, 4);
  if (std::string_view(vendor.data(), vendor.size()) != "GenuineIntel") return false;
  // Leaf 7, EDX, bit 23: Intel 64 and IA-32 Architectures Software Developer's Manual, CPUID.
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 23U & 1U) != 0;
#else
  return false;
#endif
}

Bfloat16Instructions find() {
  using dnnl::cpu_isa;
  const auto used = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  // A set of instructions has the bits of all that are part of it.
  const auto uses = [used](cpu_isa set) {
    return (used & static_cast<unsigned>(set)) == static_cast<unsigned>(set);
  };
  return {.avx512 = uses(cpu_isa::avx512_core_bf16),
          .tiles = uses(cpu_isa::avx512_core_amx),
          .quarter_rate = is_intel_with_avx512_fp16()};
}

}  // namespace

bool uses_bfloat16_instructions() {
  static const bool used = is_used(find());  // a hypervisor takes long to answer
  return used;
}

}  // namespace meshwork::cpu
