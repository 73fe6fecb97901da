// Masks: which rows count.
//
// A mask is float32, 1 for a row that counts and 0 for one that does not. Where a mask stands for
// rows of more dimensions than its own, of each `rows_a_mask` rows in turn one of its numbers counts.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/element_type.h"
#include "runtime/device/kernels/page.h"

namespace meshwork {

/// y (rows) = 1 where a column of x (rows, columns; `type`: float32 or int32) is not `value`, and
/// the mask counts the row, if there is one; else 0. A NaN is not `value`. Operands: x, [mask], y.
struct MaskSpec {
  std::int64_t rows = 0, columns = 0;
  ElementType type = ElementType::float32;
  double value = 0;
  std::int64_t rows_a_mask = 0;  // 0: no mask
  [[nodiscard]] std::string text() const {
    return spec::sized("mask", {rows, columns}) + spec::words({{rows_a_mask > 0, "masked"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, columns + 1); }
  void check() const {
    spec::require(type == ElementType::float32 || type == ElementType::int32, text(),
                  "is of float32 or int32");
  }
};

/// y (rows, columns) = x, and 0 where the mask does not count the row. Operands: x, mask, y.
struct MaskedRowsSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("masked rows", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 2 * columns + 1); }
};

/// y (rows, int32) = t (rows, int32), and -1, which is no class, where the mask does not count the
/// row. Operands: t, mask, y.
struct MaskedClassSpec {
  std::int64_t rows = 0;
  std::int64_t rows_a_mask = 1;
  [[nodiscard]] std::string text() const { return spec::sized("masked class", {rows}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, rows); }
};

/// n (float64 scalar) = scale * how many of the mask's `count` numbers are not 0. Operands: mask, n.
struct MaskCountSpec {
  std::int64_t count = 0;
  double scale = 1;
  [[nodiscard]] std::string text() const { return spec::sized("mask count", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(1, count); }
};

}  // namespace meshwork
