// Numbers of categories as columns of zeros and ones.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// Of x (rows, length), numbers of categories, float32 or int32: y (rows, columns), which is 0
/// before, becomes 1 in column c of a row that has the category `first` + c, or, if `counts`, how
/// many times the row has it. Numbers of other categories, or of none, do nothing. Operands: x, y.
struct CategoryEncodingSpec {
  std::int64_t rows = 0, length = 1;
  std::int64_t first = 0, columns = 0;
  bool counts = false;
  ElementType type = ElementType::float32;  // of x
  [[nodiscard]] std::string text() const {
    return spec::sized("category encoding", {rows, length, columns}) +
           spec::words({{counts, "counts"}, {type == ElementType::int32, "of int32"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(rows, 2 * length); }
};

}  // namespace meshwork
