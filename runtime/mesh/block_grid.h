// The blocks of a laid-out tensor as a grid of two directions: what pictures of a layout draw.
//
// Columns are the last dimension and rows the one before it; a tensor of one dimension is one row.
// Of more than two dimensions only those that are split count: the last of them is the columns, the
// others are folded into the rows, in row-major order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/mesh/layout.h"

namespace meshwork {

/// Positions of which some may be left out: nullopt stands for those.
using ShownPositions = std::vector<std::optional<std::int64_t>>;

/// All of `count` positions if they are at most `most`, else the first ones, a gap, and the last.
[[nodiscard]] ShownPositions shown_of(std::int64_t count, std::int64_t most);

/// Holds references to what it is made of.
class BlockGrid {
 public:
  /// A direction of the grid: some dimensions, folded in row-major order.
  struct Direction {
    std::vector<int> dimensions;
    std::int64_t count = 1;  // blocks
  };

  /// Who holds a block.
  struct Cell {
    std::string text;  // "0,2" and "0-3" hold the same; "0 + 1" hold addends of a partial sum
    bool empty = false;
  };

  /// Throws `Error` if `layout` does not fit `shape`.
  BlockGrid(const Layout& layout, const Shape& shape, const MeshShape& mesh);

  [[nodiscard]] const Direction& rows() const { return rows_; }
  [[nodiscard]] const Direction& columns() const { return columns_; }

  /// The indices at a position of a direction, "0:392", or of several dimensions "0:3, 2:4".
  [[nodiscard]] std::string label(const Direction& direction, std::int64_t position) const;
  [[nodiscard]] Cell cell(std::int64_t row, std::int64_t column) const;
  /// Whether `rank` holds a block, and the position of that.
  [[nodiscard]] bool holds(std::int64_t rank) const {
    return includes(layout_.places, mesh_, rank);
  }
  [[nodiscard]] std::int64_t position_of(std::int64_t rank, const Direction& direction) const;
  /// "(784, 200) as [data, model] on data=2 x model=4", with the dimensions that are folded.
  [[nodiscard]] std::string title() const;

 private:
  [[nodiscard]] std::int64_t parts(int dimension) const;
  void unfold(const Direction& direction, std::int64_t position,
              std::vector<std::int64_t>& blocks) const;

  const Layout& layout_;
  const Shape& shape_;
  const MeshShape& mesh_;
  Direction rows_, columns_;
};

}  // namespace meshwork
