// Rows of a table, by their numbers.
//
// The rank holds the rows [first, first + held) of the table. A number of a row that lies elsewhere
// gives zeros, so that what all ranks give adds up to the row; its gradient goes to those who hold
// it.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// y (rows, columns) = the rows of the table (held, columns) with these numbers (rows; int32).
/// Operands: numbers, table, y.
struct EmbeddingSpec {
  std::int64_t rows = 0, columns = 0;
  std::int64_t first = 0, held = 0;
  [[nodiscard]] std::string text() const { return spec::sized("embedding", {rows, columns, held}); }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 2 * columns + 1); }
};

/// dtable (held, columns) = for each row of the table the sum of the rows of dy (rows, columns) with
/// its number, added up in their order. Operands: numbers, dy, dtable.
struct EmbeddingGradientSpec {
  std::int64_t rows = 0, columns = 0;
  std::int64_t first = 0, held = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("embedding gradient", {rows, columns, held});
  }
  [[nodiscard]] KernelWork work() const {
    return spec::elements(spec::product({rows, columns + 1}) + spec::product({held, columns}));
  }
};

}  // namespace meshwork
