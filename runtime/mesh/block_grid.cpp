#include "runtime/mesh/block_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collectives/error.h"
#include "collectives/joined_text.h"

namespace meshwork {
namespace {

/// "0", "0,2", "4-7", "0,4,…,28".
std::string list_of(const std::vector<std::int64_t>& ranks) {
  const bool run = ranks.back() - ranks.front() + 1 == static_cast<std::int64_t>(ranks.size());
  if (ranks.size() > 2 && run) return fmt::format("{}-{}", ranks.front(), ranks.back());
  if (ranks.size() > 4) return fmt::format("{},{},…,{}", ranks[0], ranks[1], ranks.back());
  return joined_text(ranks, ",");
}

}  // namespace

ShownPositions shown_of(std::int64_t count, std::int64_t most) {
  ShownPositions shown;
  const std::int64_t first = count <= most ? count : std::max<std::int64_t>(1, most - 1);
  for (std::int64_t i = 0; i < first; ++i) shown.emplace_back(i);
  if (first < count) {
    if (first + 1 < count) shown.emplace_back(std::nullopt);
    shown.emplace_back(count - 1);
  }
  return shown;
}

BlockGrid::BlockGrid(const Layout& layout, const Shape& shape, const MeshShape& mesh)
    : layout_(layout), shape_(shape), mesh_(mesh) {
  if (layout.dimensions.size() != shape.size()) {
    fail("a tensor of shape {} cannot lie as {}: it has {} dimensions, the layout {}",
         to_string(shape), to_string(layout, mesh), shape.size(), layout.dimensions.size());
  }
  std::vector<int> rows, columns;
  if (shape.size() <= 2) {
    for (int dimension = 0; dimension < layout.dimension_count(); ++dimension) {
      (dimension + 1 == layout.dimension_count() ? columns : rows).push_back(dimension);
    }
  } else {
    for (int dimension = 0; dimension < layout.dimension_count(); ++dimension) {
      if (parts(dimension) > 1) rows.push_back(dimension);
    }
    if (!rows.empty() && rows.back() > 0) {
      columns.push_back(rows.back());
      rows.pop_back();
    }
  }
  const auto direction = [&](std::vector<int> dimensions) {
    Direction made{std::move(dimensions), 1};
    for (const int dimension : made.dimensions) made.count *= parts(dimension);
    return made;
  };
  rows_ = direction(std::move(rows));
  columns_ = direction(std::move(columns));
}

std::int64_t BlockGrid::parts(int dimension) const {
  return mesh_.size_over(layout_.dimensions[dimension]);
}

/// The block number in each dimension at `position` of a direction.
void BlockGrid::unfold(const Direction& direction, std::int64_t position,
                       std::vector<std::int64_t>& blocks) const {
  for (std::size_t i = direction.dimensions.size(); i-- > 0;) {
    const int dimension = direction.dimensions[i];
    blocks[dimension] = position % parts(dimension);
    position /= parts(dimension);
  }
}

std::int64_t BlockGrid::position_of(std::int64_t rank, const Direction& direction) const {
  std::int64_t position = 0;
  for (const int dimension : direction.dimensions) {
    position = position * parts(dimension) + mesh_.index_over(rank, layout_.dimensions[dimension]);
  }
  return position;
}

std::string BlockGrid::label(const Direction& direction, std::int64_t position) const {
  std::vector<std::int64_t> blocks(shape_.size(), 0);
  unfold(direction, position, blocks);
  std::string text;
  for (const int dimension : direction.dimensions) {
    const Range range = block_range(shape_[dimension], parts(dimension), blocks[dimension]);
    text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", range.begin, range.end);
  }
  return text;
}

BlockGrid::Cell BlockGrid::cell(std::int64_t row, std::int64_t column) const {
  std::vector<std::int64_t> blocks(shape_.size(), 0);
  unfold(rows_, row, blocks);
  unfold(columns_, column, blocks);
  Cell cell;
  std::int64_t rank = 0;  // a holder: the first along all other axes
  for (std::size_t dimension = 0; dimension < shape_.size(); ++dimension) {
    const std::vector<Axis>& axes = layout_.dimensions[dimension];
    rank = mesh_.neighbour(rank, axes, blocks[dimension]);
    cell.empty =
        cell.empty ||
        block_range(shape_[dimension], mesh_.size_over(axes), blocks[dimension]).length() == 0;
  }
  std::vector<Axis> replicating;
  for (Axis axis = 0; axis < mesh_.axis_count(); ++axis) {
    if (layout_.replicates(axis)) replicating.push_back(axis);
  }
  const std::int64_t addends = mesh_.size_over(layout_.partial);
  const std::int64_t replicas = mesh_.size_over(replicating);
  for (const std::optional<std::int64_t> addend : shown_of(addends, 3)) {
    if (!cell.text.empty()) cell.text += " + ";
    if (!addend) {
      cell.text += "…";
      continue;
    }
    const std::int64_t first = mesh_.neighbour(rank, layout_.partial, *addend);
    std::vector<std::int64_t> holders;
    for (std::int64_t replica = 0; replica < replicas; ++replica) {
      const std::int64_t holder = mesh_.neighbour(first, replicating, replica);
      if (includes(layout_.places, mesh_, holder)) holders.push_back(holder);
    }
    cell.text += list_of(holders);
  }
  if (cell.empty) cell.text = "(" + cell.text + ")";
  return cell;
}

std::string BlockGrid::title() const {
  std::string text =
      fmt::format("{} as {} on {}", to_string(shape_), to_string(layout_, mesh_), to_string(mesh_));
  if (shape_.size() > 2) {
    const auto names = [](const Direction& direction) {
      std::string list;
      for (const int dimension : direction.dimensions) {
        list += fmt::format("{}{}", list.empty() ? "dimension " : " x ", dimension);
      }
      return list;
    };
    if (!rows_.dimensions.empty()) text += ", rows: " + names(rows_);
    if (!columns_.dimensions.empty()) text += ", columns: " + names(columns_);
  }
  return text;
}

}  // namespace meshwork
