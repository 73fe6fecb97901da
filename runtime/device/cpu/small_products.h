// Products of matrices that lie in the cache, for kernels that make them tile by tile.
//
// c (m, n) = a (m, k) * b (k, n), or is added to. Rows of b and c are contiguous, and n is a
// multiple of `lanes`; a is read element by element, so that it may be transposed. A block of c
// stays in registers while k goes on. Each element adds up its terms in order, whatever the blocks.
#pragma once

#include <cstdint>

namespace meshwork::cpu {

/// What a register of this processor holds.
#if defined(__AVX512F__)
constexpr int lanes = 16;
#else
constexpr int lanes = 8;
#endif
using LaneVector [[gnu::vector_size(lanes * sizeof(float))]] = float;
/// The same where floats lie.
using StoredVector
    [[gnu::vector_size(lanes * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] =
        float;
[[nodiscard]] inline LaneVector load(const float* from) {
  return *reinterpret_cast<const StoredVector*>(from);
}
inline void store(const LaneVector& vector, float* to) {
  *reinterpret_cast<StoredVector*>(to) = vector;
}

/// The least multiple of `lanes` that is not below `count`.
[[nodiscard]] constexpr std::int64_t in_lanes(std::int64_t count) {
  return (count + lanes - 1) / lanes * lanes;
}

/// Element (i, j) stands at data[i * row + j * column].
struct StridedMatrix {
  const float* data;
  std::int64_t row, column;
};
/// Rows stand `row` elements apart.
struct RowMatrix {
  const float* data;
  std::int64_t row;
};

namespace small_products {

constexpr int block_rows = 6, block_vectors = lanes == 16 ? 4 : 2;

template <int rows, int vectors>
inline void block(const StridedMatrix& a, const RowMatrix& b, float* c, std::int64_t c_row,
                  std::int64_t k, bool add) {
  // All loops over the block are unrolled: else GCC clears and copies it in memory.
  LaneVector sums[rows][vectors];
  if (add) {
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sums[i][j] = load(c + i * c_row + j * lanes);
    }
  } else {
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sums[i][j] = LaneVector{};
    }
  }
  const float* from = a.data;
  const float* row = b.data;
  for (std::int64_t l = 0; l < k; ++l, from += a.column, row += b.row) {
    LaneVector of_b[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) of_b[j] = load(row + j * lanes);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      const float factor = from[i * a.row];
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sums[i][j] += factor * of_b[j];
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) store(sums[i][j], c + i * c_row + j * lanes);
  }
}

/// The last rows, fewer than `rows`.
template <int rows, int vectors>
inline void last_rows(std::int64_t left, const StridedMatrix& a, const RowMatrix& b, float* c,
                      std::int64_t c_row, std::int64_t k, bool add) {
  if constexpr (rows > 1) {
    if (left == rows - 1) return block<rows - 1, vectors>(a, b, c, c_row, k, add);
    last_rows<rows - 1, vectors>(left, a, b, c, c_row, k, add);
  }
}

template <int vectors>
void columns(std::int64_t m, StridedMatrix a, const RowMatrix& b, float* c, std::int64_t c_row,
             std::int64_t k, bool add) {
  for (; m >= block_rows; m -= block_rows) {
    block<block_rows, vectors>(a, b, c, c_row, k, add);
    a.data += block_rows * a.row;
    c += block_rows * c_row;
  }
  last_rows<block_rows, vectors>(m, a, b, c, c_row, k, add);
}

}  // namespace small_products

/// c = a * b, or with `add` c += a * b. Rows of c stand `c_row` elements apart.
inline void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const StridedMatrix& a,
                     RowMatrix b, float* c, std::int64_t c_row, bool add) {
  using namespace small_products;
  for (; n >= block_vectors * lanes; n -= block_vectors * lanes) {
    columns<block_vectors>(m, a, b, c, c_row, k, add);
    b.data += block_vectors * lanes;
    c += block_vectors * lanes;
  }
  if constexpr (block_vectors > 2) {
    if (n >= 2 * lanes) {
      columns<2>(m, a, b, c, c_row, k, add);
      b.data += 2 * lanes;
      c += 2 * lanes;
      n -= 2 * lanes;
    }
  }
  if (n > 0) columns<1>(m, a, b, c, c_row, k, add);
}

}  // namespace meshwork::cpu
