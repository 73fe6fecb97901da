#include "runtime/mesh/svg_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "runtime/mesh/block_grid.h"

namespace meshwork {
namespace {

// All lengths are in pixels.
constexpr int margin = 16, gap = 48;
constexpr int line_height = 18, font_size = 13;
constexpr int rank_width = 44, rank_height = 36;
constexpr int least_block_width = 64, block_height = 44;
constexpr std::int64_t most_shown = 8;

/// The width of a text, about.
int pixels_of(std::string_view text) {
  const auto characters = std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  });
  return static_cast<int>(std::ceil(static_cast<double>(characters) * 0.6 * font_size));
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

class SvgPicture {
 public:
  SvgPicture(std::string name, const BlockGrid& grid, const MeshShape& mesh)
      : name_(std::move(name)),
        grid_(grid),
        mesh_(mesh),
        across_(mesh.axis_count() > 0 ? mesh.size(mesh.axis_count() - 1) : 1) {}

  std::string draw() {
    const int top = margin + 3 * line_height;
    const int mesh_right = draw_mesh(top);
    const int right = draw_blocks(mesh_right + gap, top);
    width_ = std::max(right, margin + pixels_of(grid_.title() + name_ + ": ")) + margin;
    height_ += margin;
    text(margin, margin + font_size, "start", name_ + ": " + grid_.title(),
         " font-weight=\"bold\"");
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" font-family=\"Helvetica, Arial, sans-serif\" "
        "font-size=\"{2}\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{3}</svg>\n",
        width_, height_, font_size, body_);
  }

 private:
  /// Returns the right border.
  int draw_mesh(int top) {
    const int axes = mesh_.axis_count();
    std::string rows_name;  // of the axes that are folded into rows
    for (Axis axis = 0; axis + 1 < axes; ++axis) {
      rows_name += (rows_name.empty() ? "" : ", ") + mesh_.name(axis);
    }
    const ShownPositions rows = shown_of(mesh_.rank_count() / across_, most_shown);
    const ShownPositions columns = shown_of(across_, most_shown);
    const int left = margin + (rows_name.empty() ? 0 : pixels_of(rows_name) + 8);
    const int right = left + static_cast<int>(columns.size()) * rank_width;
    text((left + right) / 2, top - 8, "middle", mesh_.name(axes - 1) + " →");
    text(margin, top + rank_height / 2 + 5, "start", rows_name);
    if (!rows_name.empty()) text(margin, top + rank_height / 2 + 5 + line_height, "start", "↓");
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (std::size_t column = 0; column < columns.size(); ++column) {
        const int x = left + static_cast<int>(column) * rank_width;
        const int y = top + static_cast<int>(row) * rank_height;
        if (!rows[row] || !columns[column]) {
          elided(x, y, rank_width, rank_height, rows[row].has_value());
          continue;
        }
        const std::int64_t rank = *rows[row] * across_ + *columns[column];
        box(x, y, rank_width, rank_height,
            grid_.holds(rank) ? colour(grid_.position_of(rank, grid_.rows()),
                                       grid_.position_of(rank, grid_.columns()))
                              : "#ffffff",
            fmt::format("{}", rank));
      }
    }
    caption(left, right, top + static_cast<int>(rows.size()) * rank_height, "ranks of the mesh");
    return std::max(right, margin + pixels_of("ranks of the mesh"));
  }

  /// Returns the right border.
  int draw_blocks(int left_border, int top) {
    const ShownPositions rows = shown_of(grid_.rows().count, most_shown);
    const ShownPositions columns = shown_of(grid_.columns().count, most_shown);
    int left = left_border;
    int width = least_block_width;
    for (const auto row : rows) {
      if (!row) continue;
      left = std::max(left, left_border + pixels_of(grid_.label(grid_.rows(), *row)) + 8);
      for (const auto column : columns) {
        if (!column) continue;
        width = std::max({width, pixels_of(grid_.cell(*row, *column).text) + 16,
                          pixels_of(grid_.label(grid_.columns(), *column)) + 12});
      }
    }
    for (std::size_t column = 0; column < columns.size(); ++column) {
      if (!columns[column]) continue;
      text(left + static_cast<int>(column) * width + width / 2, top - 8, "middle",
           grid_.label(grid_.columns(), *columns[column]));
    }
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const int y = top + static_cast<int>(row) * block_height;
      if (rows[row]) {
        text(left - 8, y + block_height / 2 + 5, "end", grid_.label(grid_.rows(), *rows[row]));
      }
      for (std::size_t column = 0; column < columns.size(); ++column) {
        const int x = left + static_cast<int>(column) * width;
        if (!rows[row] || !columns[column]) {
          elided(x, y, width, block_height, rows[row].has_value());
          continue;
        }
        const BlockGrid::Cell cell = grid_.cell(*rows[row], *columns[column]);
        box(x, y, width, block_height,
            cell.empty ? "#ffffff" : colour(*rows[row], *columns[column]), cell.text);
      }
    }
    const int right = left + static_cast<int>(columns.size()) * width;
    caption(left, right, top + static_cast<int>(rows.size()) * block_height,
            "blocks, and the ranks that hold them");
    return std::max(right, (left + right + pixels_of("blocks, and the ranks that hold them")) / 2);
  }

  void caption(int left, int right, int bottom, std::string_view words) {
    text((left + right) / 2, bottom + line_height, "middle", words, " fill=\"#57606a\"");
    height_ = std::max(height_, bottom + line_height);
  }

  // Light backgrounds on which black is easy to read. Few blocks all differ; of more, three steps a
  // row let neighbours differ.
  [[nodiscard]] std::string colour(std::int64_t row, std::int64_t column) const {
    constexpr std::array<const char*, 8> palette{"#aed6f1", "#f9e79f", "#abebc6", "#f5b7b1",
                                                 "#d2b4de", "#fad7a0", "#a3e4d7", "#f5cba7"};
    const std::int64_t columns = grid_.columns().count;
    const bool few = grid_.rows().count * columns <= std::ssize(palette);
    return palette[static_cast<std::size_t>(row * (few ? columns : 3) + column) % palette.size()];
  }

  void text(int x, int y, std::string_view anchor, std::string_view words,
            std::string_view attributes = "") {
    if (words.empty()) return;
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor,
                         attributes, escaped(words));
  }

  void box(int x, int y, int width, int height, std::string_view fill, std::string_view words) {
    body_ += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#24292f\"/>\n", x,
        y, width, height, fill);
    text(x + width / 2, y + height / 2 + 5, "middle", words);
  }

  void elided(int x, int y, int width, int height, bool across) {
    text(x + width / 2, y + height / 2 + 5, "middle", across ? "…" : "⋮");
  }

  std::string name_;
  const BlockGrid& grid_;
  const MeshShape& mesh_;
  std::int64_t across_;  // ranks along the last axis
  std::string body_;
  int width_ = 0, height_ = 0;
};

}  // namespace

std::string svg_picture(const std::string& name, const Layout& layout, const Shape& shape,
                        const MeshShape& mesh) {
  const BlockGrid grid(layout, shape, mesh);
  return SvgPicture(name, grid, mesh).draw();
}

}  // namespace meshwork
