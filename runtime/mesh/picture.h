// A picture of a layout in the terminal: which ranks hold which block.
//
//     (784, 200) as [data, model] on data=2 x model=4
//              0:50   50:100   100:150   150:200
//            ┌──────┬────────┬─────────┬─────────┐
//      0:392 │  0   │   1    │    2    │    3    │
//            ├──────┼────────┼─────────┼─────────┤
//    392:784 │  4   │   5    │    6    │    7    │
//            └──────┴────────┴─────────┴─────────┘
//
// block_grid.h says which dimensions are rows and columns. Beside the cells stand the indices,
// begin:end, as Python slices.
//
// A cell names the ranks that hold the block: "0,2" and "0-3" hold the same, "0,4,…,28" elides;
// "0 + 1" hold addends of a partial sum. Ranks in parentheses hold an empty block. Rows beyond
// `rows`, and columns beyond the width, are elided in the middle.
#pragma once

#include <string>

#include "runtime/mesh/layout.h"

namespace meshwork {

struct PictureOptions {
  bool color = false;  // one of a few background colours for each block (ANSI, 256 colours)
  int width = 100;     // columns of text, as far as at least two blocks of a row can be shown
  int rows = 16;       // rows of blocks
};

/// Several lines, each with a line feed. Throws `Error` if `layout` does not fit `shape`.
[[nodiscard]] std::string picture(const Layout& layout, const Shape& shape, const MeshShape& mesh,
                                  const PictureOptions& options = {});

}  // namespace meshwork
