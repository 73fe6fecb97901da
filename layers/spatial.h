// What the layers over images have in common: lengths of rows and columns, and their options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/config/node.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

/// A length for rows and one for columns, as in `.kernel_size = 3` or `.kernel_size = {3, 5}`; in
/// configurations `3` or `[3, 5]`.
struct RowsAndColumns {
  std::int64_t rows = 1, columns = 1;
  RowsAndColumns() = default;
  RowsAndColumns(std::int64_t both) : rows(both), columns(both) {}
  RowsAndColumns(std::int64_t of_rows, std::int64_t of_columns)
      : rows(of_rows), columns(of_columns) {}
  bool operator==(const RowsAndColumns&) const = default;
};

/// "(3, 5)".
[[nodiscard]] std::string to_string(const RowsAndColumns& lengths);

/// One positive integer, or a list of two.
void from_config(const ConfigNode& node, RowsAndColumns& lengths);
/// "valid" or "same".
void from_config(const ConfigNode& node, Padding& padding);

/// Throws `Error` unless both lengths of option `option` of layer `layer` are positive.
void check_positive(const std::string& layer, std::string_view option,
                    const RowsAndColumns& lengths);
void check_positive(const std::string& layer, std::string_view option, std::int64_t length);

}  // namespace meshwork
