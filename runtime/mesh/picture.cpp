#include "runtime/mesh/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "collectives/error.h"

namespace meshwork {
namespace {

constexpr std::string_view ellipsis = "…";

/// How many columns of a terminal a text takes: its UTF-8 characters, all of them narrow here.
int width_of(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

std::string repeated(std::string_view text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

std::string right_aligned(const std::string& text, int width) {
  return std::string(static_cast<std::size_t>(std::max(0, width - width_of(text))), ' ') + text;
}

std::string centred(const std::string& text, int width) {
  const int space = std::max(0, width - width_of(text));
  return std::string(static_cast<std::size_t>(space / 2), ' ') + text +
         std::string(static_cast<std::size_t>(space - space / 2), ' ');
}

/// "0", "0,2", "4-7", "0,4,…,28".
std::string list_of(const std::vector<std::int64_t>& ranks) {
  const bool run = ranks.back() - ranks.front() + 1 == static_cast<std::int64_t>(ranks.size());
  if (ranks.size() > 2 && run) return fmt::format("{}-{}", ranks.front(), ranks.back());
  if (ranks.size() > 4) {
    return fmt::format("{},{},{},{}", ranks[0], ranks[1], ellipsis, ranks.back());
  }
  std::string text;
  for (const std::int64_t rank : ranks) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", rank);
  }
  return text;
}

/// Some of `count` positions: all if they are at most `most`, else the first ones, a gap
/// (nullopt), and the last.
std::vector<std::optional<std::int64_t>> shown_of(std::int64_t count, std::int64_t most) {
  std::vector<std::optional<std::int64_t>> shown;
  const std::int64_t first = count <= most ? count : std::max<std::int64_t>(1, most - 1);
  for (std::int64_t i = 0; i < first; ++i) shown.emplace_back(i);
  if (first < count) {
    if (first + 1 < count) shown.emplace_back(std::nullopt);
    shown.emplace_back(count - 1);
  }
  return shown;
}

/// A direction of the picture: some dimensions, folded in row-major order.
struct Direction {
  std::vector<int> dimensions;
  std::int64_t count = 1;  // blocks
};

struct Cell {
  std::string text;
  bool empty = false;
};

class Picture {
 public:
  Picture(const Layout& layout, const Shape& shape, const MeshShape& mesh,
          const PictureOptions& options)
      : layout_(layout), shape_(shape), mesh_(mesh), options_(options) {
    if (layout.dimensions.size() != shape.size()) {
      fail("a tensor of shape {} cannot lie as {}: it has {} dimensions, the layout {}",
           to_string(shape), to_string(layout, mesh), shape.size(), layout.dimensions.size());
    }
    choose_directions();
  }

  std::string draw() {
    for (std::int64_t most = std::min<std::int64_t>(columns_.count, 32);; --most) {
      lay_out(most);
      if (most <= 2 || total_width() <= options_.width) break;
    }
    std::string text = title();
    if (!columns_.dimensions.empty()) text += column_line();
    text += border("┌", "┬", "┐");
    for (std::size_t row = 0; row < shown_rows_.size(); ++row) {
      if (row > 0) text += border("├", "┼", "┤");
      text += right_aligned(row_labels_[row], label_width_) + " ";
      for (std::size_t column = 0; column < shown_columns_.size(); ++column) {
        text += "│" + coloured(cells_[row][column], row, column);
      }
      text += "│\n";
    }
    return text + border("└", "┴", "┘");
  }

 private:
  void choose_directions() {
    std::vector<int> rows, columns;
    if (shape_.size() <= 2) {
      for (int dimension = 0; dimension < layout_.dimension_count(); ++dimension) {
        (dimension + 1 == layout_.dimension_count() ? columns : rows).push_back(dimension);
      }
    } else {
      for (int dimension = 0; dimension < layout_.dimension_count(); ++dimension) {
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

  [[nodiscard]] std::int64_t parts(int dimension) const {
    return mesh_.size_over(layout_.dimensions[dimension]);
  }

  /// The block number in each dimension at `position` of a direction.
  void unfold(const Direction& direction, std::int64_t position,
              std::vector<std::int64_t>& blocks) const {
    for (std::size_t i = direction.dimensions.size(); i-- > 0;) {
      const int dimension = direction.dimensions[i];
      blocks[dimension] = position % parts(dimension);
      position /= parts(dimension);
    }
  }

  [[nodiscard]] std::string label(const Direction& direction, std::int64_t position) const {
    std::vector<std::int64_t> blocks(shape_.size(), 0);
    unfold(direction, position, blocks);
    std::string text;
    for (const int dimension : direction.dimensions) {
      const Range range = block_range(shape_[dimension], parts(dimension), blocks[dimension]);
      text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", range.begin, range.end);
    }
    return text;
  }

  [[nodiscard]] Cell cell(std::int64_t row, std::int64_t column) const {
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
        cell.text += ellipsis;
        continue;
      }
      const std::int64_t first = mesh_.neighbour(rank, layout_.partial, *addend);
      std::vector<std::int64_t> holders;
      for (std::int64_t replica = 0; replica < replicas; ++replica) {
        holders.push_back(mesh_.neighbour(first, replicating, replica));
      }
      cell.text += list_of(holders);
    }
    if (cell.empty) cell.text = "(" + cell.text + ")";
    return cell;
  }

  /// Makes labels, cells and widths with at most `most` columns.
  void lay_out(std::int64_t most) {
    shown_rows_ = shown_of(rows_.count, std::max(2, options_.rows));
    shown_columns_ = shown_of(columns_.count, most);
    row_labels_.clear();
    column_labels_.clear();
    cells_.clear();
    label_width_ = 0;
    widths_.clear();
    for (const auto column : shown_columns_) {
      column_labels_.push_back(column ? label(columns_, *column) : std::string(ellipsis));
      widths_.push_back(width_of(column_labels_.back()) + 2);
    }
    for (const auto row : shown_rows_) {
      row_labels_.push_back(row ? label(rows_, *row) : std::string("⋮"));
      label_width_ = std::max(label_width_, width_of(row_labels_.back()));
      std::vector<Cell>& line = cells_.emplace_back();
      for (std::size_t i = 0; i < shown_columns_.size(); ++i) {
        if (row && shown_columns_[i]) {
          line.push_back(cell(*row, *shown_columns_[i]));
        } else {
          line.push_back({std::string(row ? ellipsis : "⋮"), false});
        }
        widths_[i] = std::max(widths_[i], width_of(line.back().text) + 2);
      }
    }
  }

  [[nodiscard]] int total_width() const {
    int width = label_width_ + 2;
    for (const int each : widths_) width += each + 1;
    return width;
  }

  [[nodiscard]] std::string title() const {
    std::string text = fmt::format("{} as {} on {}", to_string(shape_), to_string(layout_, mesh_),
                                   to_string(mesh_));
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
    return text + "\n";
  }

  [[nodiscard]] std::string column_line() const {
    std::string text(static_cast<std::size_t>(label_width_ + 1), ' ');
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      text += ' ';
      text += centred(column_labels_[i], widths_[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  }

  [[nodiscard]] std::string border(std::string_view left, std::string_view middle,
                                   std::string_view right) const {
    std::string text(static_cast<std::size_t>(label_width_ + 1), ' ');
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      text += i == 0 ? left : middle;
      text += repeated("─", widths_[i]);
    }
    return text + std::string(right) + "\n";
  }

  [[nodiscard]] std::string coloured(const Cell& cell, std::size_t row, std::size_t column) const {
    const std::string text = centred(cell.text, widths_[column]);
    const bool block = shown_rows_[row] && shown_columns_[column];
    if (!options_.color || cell.empty || !block) return text;
    // Light backgrounds on which black is easy to read. Three steps a row let neighbours differ.
    constexpr std::array<int, 8> palette{153, 229, 157, 224, 189, 222, 159, 218};
    const auto index = static_cast<std::size_t>(*shown_rows_[row] * 3 + *shown_columns_[column]);
    return fmt::format("\x1b[30;48;5;{}m{}\x1b[0m", palette[index % palette.size()], text);
  }

  const Layout& layout_;
  const Shape& shape_;
  const MeshShape& mesh_;
  const PictureOptions& options_;
  Direction rows_, columns_;
  std::vector<std::optional<std::int64_t>> shown_rows_, shown_columns_;  // nullopt: elided
  std::vector<std::string> row_labels_, column_labels_;
  std::vector<std::vector<Cell>> cells_;
  int label_width_ = 0;
  std::vector<int> widths_;
};

}  // namespace

std::string picture(const Layout& layout, const Shape& shape, const MeshShape& mesh,
                    const PictureOptions& options) {
  return Picture(layout, shape, mesh, options).draw();
}

}  // namespace meshwork
