// Whether a processor gains from multiplying in bfloat16.
//
// Instructions alone are not enough. One of AVX512_BF16 does twice as many products as one of
// float32. Zen 4 starts both equally often. An Emerald Rapids starts a quarter as many (measured:
// 1.46 and 5.9 in a nanosecond), so that a product takes up to twice as long; all Intel cores with
// AVX512_FP16 are taken for such. There only AMX's tiles gain, which the system must permit: Linux
// before 5.16 and some hypervisors do not. Where nothing is gained, products are done in float32,
// of rounded operands (bfloat16_rounding.h).
//
// This is the rule, and it can be wrong: a hypervisor may hide AVX512_FP16 alone. So float32 of
// rounded operands is a candidate where instructions are used too, and `kernels: timed` finds out.
// Where they are not used they are no candidates. Neither AMX nor Cooper Lake has been measured.
#pragma once

namespace meshwork::cpu {

struct Bfloat16Instructions {
  bool avx512 = false;        // AVX512_BF16, which oneDNN may use
  bool tiles = false;         // AMX, which oneDNN and the system let be used
  bool quarter_rate = false;  // AVX512_BF16's start a quarter as often as float32's
};

/// Whether products are done by them: by tiles, or by AVX512_BF16's at their full rate.
[[nodiscard]] constexpr bool is_used(const Bfloat16Instructions& of) {
  return of.tiles || (of.avx512 && !of.quarter_rate);
}

/// Whether this processor's are used.
[[nodiscard]] bool uses_bfloat16_instructions();

}  // namespace meshwork::cpu
