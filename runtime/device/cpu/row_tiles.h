// Rows that are whole: the long ones by themselves, the short ones in tiles.
//
// A row of ten columns is too short to be worth a vector. Up to `tile_rows` rows of up to
// `tile_columns` columns are turned, so that a vector holds one column of all of them and a loop
// over columns does for each row what it would do for one alone, in the same order: sums of up to
// 16 terms are those of `lane_sum`.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "runtime/device/cpu/loops.h"

namespace meshwork::cpu {

constexpr int tile_rows = 16;
constexpr int tile_columns = 16;

/// One value a row.
template <class T = float>
struct alignas(64) TileRow : std::array<T, tile_rows> {};
/// tile[column][row].
using Tile = std::array<TileRow<>, tile_columns>;

/// The rows from `first` on that one tile holds.
struct TileAt {
  std::int64_t first, columns;
  int rows;
};

/// body(at) for tiles that cover `rows` rows; `row_bytes` as for_rows. `columns` is at most
/// `tile_columns`.
template <class Body>
void for_tiles(int threads, std::int64_t rows, std::int64_t columns, std::int64_t row_bytes,
               const Body& body) {
  for_rows(threads, (rows + tile_rows - 1) / tile_rows, row_bytes * tile_rows,
           [=](std::int64_t tile) {
             const std::int64_t first = tile * tile_rows;
             const auto left = static_cast<int>(std::min<std::int64_t>(rows - first, tile_rows));
             body(TileAt{first, columns, left});
           });
}

/// The tile of x (rows, columns) at `at`; rows that it lacks are 0.
inline void load(Tile& tile, const float* x, const TileAt& at) {
  const float* from = x + at.first * at.columns;
  if (at.rows < tile_rows) tile = {};
  for (std::int64_t j = 0; j < at.columns; ++j) {
    for (int row = 0; row < at.rows; ++row) tile[j][row] = from[row * at.columns + j];
  }
}
inline void store(const Tile& tile, float* x, const TileAt& at) {
  float* to = x + at.first * at.columns;
  for (std::int64_t j = 0; j < at.columns; ++j) {
    for (int row = 0; row < at.rows; ++row) to[row * at.columns + j] = tile[j][row];
  }
}

/// The maximum of each row of a tile.
[[nodiscard]] inline TileRow<> maxima(const Tile& tile, std::int64_t columns) {
  TileRow<> best;
  best.fill(folds::Maximum::identity());
  for (std::int64_t j = 0; j < columns; ++j) {
#pragma omp simd
    for (int row = 0; row < tile_rows; ++row) best[row] = greater_or_nan(tile[j][row], best[row]);
  }
  return best;
}

/// The maximum of one row.
[[nodiscard]] inline float row_maximum(const float* x, std::int64_t columns) {
  return lane_fold<folds::Maximum>(columns, [=](std::int64_t j) { return x[j]; });
}

}  // namespace meshwork::cpu
