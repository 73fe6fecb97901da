// ZeroPadding2D: rows and columns of zeros around an image.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/config/node.h"
#include "runtime/graph/layer.h"

namespace meshwork {

/// How much is added on each side, as in `.padding = 1`, `.padding = {1, 2}` (rows and columns) or
/// `.padding = {{0, 1}, {2, 2}}` (above and below, left and right); alike in configurations.
struct ImageBorders {
  struct Pair {
    std::int64_t before = 1, behind = 1;
  };
  Pair rows, columns;
  ImageBorders() = default;
  ImageBorders(std::int64_t all) : rows{all, all}, columns{all, all} {}
  ImageBorders(std::int64_t of_rows, std::int64_t of_columns)
      : rows{of_rows, of_rows}, columns{of_columns, of_columns} {}
  ImageBorders(Pair of_rows, Pair of_columns) : rows(of_rows), columns(of_columns) {}
};

void from_config(const ConfigNode& node, ImageBorders& borders);

struct ZeroPadding2DOptions {
  std::string name;
  ImageBorders padding = 1;
};

/// y (batch, rows + what is added, columns + what is added, channels): x with zeros around it. No
/// variables. Throws `Error` for negative borders; when called, for inputs that are no images.
[[nodiscard]] SharedLayer ZeroPadding2D(ZeroPadding2DOptions options = {});

}  // namespace meshwork
