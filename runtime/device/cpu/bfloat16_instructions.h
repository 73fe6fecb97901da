// Whether a processor gains from multiplying in bfloat16.
//
// To have instructions for it is not enough. AVX512_BF16's multiplies twice as many numbers as
// float32's; AMD's cores from Zen 4 on start as many of both in a cycle. Intel's cores that have
// AVX512_FP16 too, from Sapphire Rapids on, start one where they start four of float32's (1.46 and
// 5.9 in a nanosecond of an Emerald Rapids), so that products take up to twice as long. What gains
// there are AMX's tiles, which the system must permit: Linux before 5.16 and some hypervisors do
// not. Without them products are better done in float32, of rounded operands (bfloat16_rounding.h).
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
