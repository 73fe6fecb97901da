// Matrix products of float32 matrices whose elements are rounded to bfloat16 on the way into the
// multiplication, by the AVX512_BF16 instructions.
//
// Every product of matrices copies blocks of its operands into an order that suits the arithmetic.
// Here that copy rounds as well. So there are no matrices of bfloat16 in memory, nothing is
// converted beforehand and nothing has to be kept up to date with the weights: a product reads and
// writes what it would in float32, and multiplies twice as fast. The alternative, oneDNN's bfloat16
// products on converted operands, takes longer for the weights of a dense layer to be converted
// alone than it saves at a hundred rows (matmul.cpp has the figures).
//
// How. c (m, n) is computed in *tiles* of 8 rows and up to 48 columns, which stay in 24 vector
// registers while the inner dimension goes by; an instruction takes two of its steps, a *pair*, at
// once. For that, a is packed into panels of 8 rows and b into panels of 48 columns, in each of
// which the elements of a pair lie side by side:
//   a  [block of pairs] [panel] [pair] [8 rows] [2]
//   b                   [panel] [pair] [16, 32 or 48 columns] [2]
// a is packed whole before anything else, b a block of 128 pairs and 384 columns at a time, so that
// a panel of b stays in the first cache, while the block, the rows of a that go with it, and the
// part of c stay in the second. While one block is multiplied, the next one of b is fetched.
// The scheme is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
// (2008).
//
// Bound by FLOP: about 0.9 of the peak, and twice float32, from about 64 rows on.
#pragma once

#include <cstdint>

namespace meshwork::cpu {

/// Whether this processor has the instructions; else nothing else here may be called.
[[nodiscard]] bool has_bfloat16_instructions();

/// c (m, n) = activation(op(a) (m, k) * op(b) (k, n) + bias), or c += without both. A row of a
/// matrix, as it is stored, begins `..._stride` elements behind the one before. No length is 0.
struct Bfloat16Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  bool accumulate = false;
  bool relu = false;  // NaN stays NaN
};

/// Bytes of scratch memory, aligned to 64, that the product takes on up to `threads` threads.
[[nodiscard]] std::int64_t workspace_bytes(const Bfloat16Product& product, int threads);

/// Runs it. `bias` (n) may be null: none. The bits do not depend on `threads`.
void multiply(const Bfloat16Product& product, const float* a, const float* b, const float* bias,
              float* c, void* workspace, int threads);

}  // namespace meshwork::cpu
