#include "runtime/mesh/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/mesh/block_grid.h"

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

class Picture {
 public:
  Picture(const BlockGrid& grid, const PictureOptions& options) : grid_(grid), options_(options) {}

  std::string draw() {
    for (std::int64_t most = std::min<std::int64_t>(grid_.columns().count, 32);; --most) {
      lay_out(most);
      if (most <= 2 || total_width() <= options_.width) break;
    }
    std::string text = grid_.title() + "\n";
    if (!grid_.columns().dimensions.empty()) text += column_line();
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
  /// Makes labels, cells and widths with at most `most` columns.
  void lay_out(std::int64_t most) {
    shown_rows_ = shown_of(grid_.rows().count, std::max(2, options_.rows));
    shown_columns_ = shown_of(grid_.columns().count, most);
    row_labels_.clear();
    column_labels_.clear();
    cells_.clear();
    label_width_ = 0;
    widths_.clear();
    for (const auto column : shown_columns_) {
      column_labels_.push_back(column ? grid_.label(grid_.columns(), *column)
                                      : std::string(ellipsis));
      widths_.push_back(width_of(column_labels_.back()) + 2);
    }
    for (const auto row : shown_rows_) {
      row_labels_.push_back(row ? grid_.label(grid_.rows(), *row) : std::string("⋮"));
      label_width_ = std::max(label_width_, width_of(row_labels_.back()));
      std::vector<BlockGrid::Cell>& line = cells_.emplace_back();
      for (std::size_t i = 0; i < shown_columns_.size(); ++i) {
        if (row && shown_columns_[i]) {
          line.push_back(grid_.cell(*row, *shown_columns_[i]));
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

  [[nodiscard]] std::string coloured(const BlockGrid::Cell& cell, std::size_t row,
                                     std::size_t column) const {
    const std::string text = centred(cell.text, widths_[column]);
    const bool block = shown_rows_[row] && shown_columns_[column];
    if (!options_.color || cell.empty || !block) return text;
    // Light backgrounds on which black is easy to read. Three steps a row let neighbours differ.
    constexpr std::array<int, 8> palette{153, 229, 157, 224, 189, 222, 159, 218};
    const auto index = static_cast<std::size_t>(*shown_rows_[row] * 3 + *shown_columns_[column]);
    return fmt::format("\x1b[30;48;5;{}m{}\x1b[0m", palette[index % palette.size()], text);
  }

  const BlockGrid& grid_;
  const PictureOptions& options_;
  ShownPositions shown_rows_, shown_columns_;
  std::vector<std::string> row_labels_, column_labels_;
  std::vector<std::vector<BlockGrid::Cell>> cells_;
  int label_width_ = 0;
  std::vector<int> widths_;
};

}  // namespace

std::string picture(const Layout& layout, const Shape& shape, const MeshShape& mesh,
                    const PictureOptions& options) {
  return Picture(BlockGrid(layout, shape, mesh), options).draw();
}

}  // namespace meshwork
