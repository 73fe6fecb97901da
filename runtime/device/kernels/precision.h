// In which numbers products are computed.
//
// Precision is a matter of the multiplications alone, in dense products and convolutions, forward
// and in both gradients. Their operands and results are float32 in memory whatever it is, and so
// are variables, optimizer slots, gradients, activations, statistics, losses and what collectives
// carry. Where a device reads operands stored in bfloat16 (DeviceTraits::reads_narrow_operands),
// rounded copies of them stand beside.
//   float32   as they are.
//   tf32      each operand is brought to 11 significant bits where it enters the product, rounded
//             or cut off as NVIDIA's GPUs from Ampere on do it, and products are added up in
//             float32. It is theirs alone: nobody else would be faster, nor get their numbers.
//   bfloat16  each operand is rounded to 8 significant bits (to nearest, ties to even) where it
//             enters the product; the products of two such numbers are exact in float32, and are
//             added up in float32. Bias, activation and `accumulate` follow in float32.
// So a device without instructions for it computes the same numbers, to the order of the sums, by
// rounding first. Rounding flushes what is below float32's normal numbers to zero, or keeps it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace meshwork {

enum class Precision : std::uint8_t { float32, tf32, bfloat16 };

constexpr std::array<Precision, 3> all_precisions{Precision::float32, Precision::tf32,
                                                  Precision::bfloat16};

/// "float32", "tf32" or "bfloat16".
[[nodiscard]] constexpr std::string_view name_of(Precision precision) {
  constexpr std::array<std::string_view, all_precisions.size()> names{"float32", "tf32",
                                                                      "bfloat16"};
  return names[static_cast<std::size_t>(precision)];
}

}  // namespace meshwork
