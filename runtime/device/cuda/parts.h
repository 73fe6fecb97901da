// How loops are cut for the GPU: numbers that follow from the shape alone, for launches on the
// device and on the host alike.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/device/folds.h"

namespace meshwork::cuda {

constexpr int block_threads = 256;

/// Rows of up to this many columns are reduced by `narrow_group` threads, longer ones by a block.
constexpr std::int64_t narrow_columns = 512;
constexpr int narrow_group = 32;

/// Columns (rows, columns) in tiles of `width` and parts of `rows_a_part` rows, a block for each;
/// `deep` rows at a time.
struct ColumnParts {
  ColumnParts(std::int64_t row_count, std::int64_t column_count)
      : rows(row_count),
        columns(column_count),
        width(static_cast<int>(std::clamp<std::int64_t>(column_count, 1, narrow_group))),
        deep(block_threads / width) {
    constexpr std::int64_t rows_a_thread = 16, most_parts = 512;
    const std::int64_t wanted =
        std::clamp<std::int64_t>(rows / (deep * rows_a_thread), 1, most_parts);
    rows_a_part = std::max<std::int64_t>((rows + wanted - 1) / wanted, 1);
    parts = std::max<std::int64_t>((rows + rows_a_part - 1) / rows_a_part, 1);
  }
  [[nodiscard]] std::int64_t tiles() const { return (columns + width - 1) / width; }

  std::int64_t rows, columns;
  int width, deep;
  std::int64_t rows_a_part = 1, parts = 1;
};

/// `count` terms in parts of `length`, for sums over all of them in two passes.
struct SumParts {
  explicit SumParts(std::int64_t term_count) : count(term_count) {
    constexpr std::int64_t terms_a_thread = 16, most_parts = 1024;
    const std::int64_t wanted =
        std::clamp<std::int64_t>(count / (block_threads * terms_a_thread), 1, most_parts);
    length = std::max<std::int64_t>((count + wanted - 1) / wanted, 1);
    parts = std::max<std::int64_t>((count + length - 1) / length, 1);
  }
  /// Of the partial sums.
  [[nodiscard]] std::int64_t bytes() const {
    return parts > 1 ? parts * static_cast<std::int64_t>(sizeof(double)) : 0;
  }

  std::int64_t count, length = 1, parts = 1;
};

}  // namespace meshwork::cuda
