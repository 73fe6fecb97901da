// Whether a processor gains from multiplying in bfloat16.
//
// To have instructions for it is not enough. One of AVX512_BF16 multiplies twice as many numbers as
// one of float32. Zen 4 starts as many of both in a cycle. An Emerald Rapids starts one where it
// starts four of float32 (1.46 and 5.9 in a nanosecond), so that products take up to twice as long;
// Intel's cores of its kind are known by AVX512_FP16. What gains there are AMX's tiles, which the
// system must permit: Linux before 5.16 and some hypervisors do not. Without them products are done
// in float32, of rounded operands (bfloat16_rounding.h).
//
// This is the rule. A hypervisor may hide AVX512_FP16 alone, and be told wrong: both ways are
// candidates where there are instructions, and `kernels: timed` finds out.
#pragma once

namespace meshwork::cpu {

struct Bfloat16Instructions {
  bool avx512 = false;        // AVX512_BF16, which oneDNN may use
  bool tiles = false;         // AMX, which oneDNN and the system let be used
  bool quarter_rate = false;  // those of an Intel core with AVX512_FP16
};

/// Whether products are done by them: by tiles, or by AVX512_BF16's at their full rate.
[[nodiscard]] constexpr bool is_used(const Bfloat16Instructions& of) {
  return of.tiles || (of.avx512 && !of.quarter_rate);
}

/// Whether this processor's are used.
[[nodiscard]] bool uses_bfloat16_instructions();

}  // namespace meshwork::cpu
