#include "runtime/mesh/svg_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "runtime/mesh/block_grid.h"
#include "runtime/mesh/svg_drawing.h"

namespace meshwork {
namespace {

// All lengths are in pixels.
constexpr int margin = SvgDrawing::margin, gap = 48;
constexpr int line_height = SvgDrawing::line_height;
constexpr int rank_width = 44, rank_height = 36;
constexpr int least_block_width = 64, block_height = 44;
constexpr std::int64_t most_shown = 8;

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
    drawing_.text(margin, margin + SvgDrawing::font_size, "start", name_ + ": " + grid_.title(),
                  SvgDrawing::bold_text);
    return drawing_.document(width_, height_);
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
    drawing_.text((left + right) / 2, top - 8, "middle", mesh_.name(axes - 1) + " →");
    drawing_.text(margin, top + rank_height / 2 + 5, "start", rows_name);
    if (!rows_name.empty())
      drawing_.text(margin, top + rank_height / 2 + 5 + line_height, "start", "↓");
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (std::size_t column = 0; column < columns.size(); ++column) {
        const int x = left + static_cast<int>(column) * rank_width;
        const int y = top + static_cast<int>(row) * rank_height;
        if (!rows[row] || !columns[column]) {
          drawing_.elided(x, y, rank_width, rank_height, rows[row].has_value());
          continue;
        }
        const std::int64_t rank = *rows[row] * across_ + *columns[column];
        drawing_.box(x, y, rank_width, rank_height,
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
      drawing_.text(left + static_cast<int>(column) * width + width / 2, top - 8, "middle",
                    grid_.label(grid_.columns(), *columns[column]));
    }
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const int y = top + static_cast<int>(row) * block_height;
      if (rows[row]) {
        drawing_.text(left - 8, y + block_height / 2 + 5, "end",
                      grid_.label(grid_.rows(), *rows[row]));
      }
      for (std::size_t column = 0; column < columns.size(); ++column) {
        const int x = left + static_cast<int>(column) * width;
        if (!rows[row] || !columns[column]) {
          drawing_.elided(x, y, width, block_height, rows[row].has_value());
          continue;
        }
        const BlockGrid::Cell cell = grid_.cell(*rows[row], *columns[column]);
        drawing_.box(x, y, width, block_height,
                     cell.empty ? "#ffffff" : colour(*rows[row], *columns[column]), cell.text);
      }
    }
    const int right = left + static_cast<int>(columns.size()) * width;
    caption(left, right, top + static_cast<int>(rows.size()) * block_height,
            "blocks, and the ranks that hold them");
    return std::max(right, (left + right + pixels_of("blocks, and the ranks that hold them")) / 2);
  }

  void caption(int left, int right, int bottom, std::string_view words) {
    drawing_.text((left + right) / 2, bottom + line_height, "middle", words,
                  SvgDrawing::quiet_text);
    height_ = std::max(height_, bottom + line_height);
  }

  // Few blocks all differ; of more, three steps a row let neighbours differ.
  [[nodiscard]] std::string colour(std::int64_t row, std::int64_t column) const {
    constexpr const auto& palette = SvgDrawing::palette;
    const std::int64_t columns = grid_.columns().count;
    const bool few = grid_.rows().count * columns <= std::ssize(palette);
    return palette[static_cast<std::size_t>(row * (few ? columns : 3) + column) % palette.size()];
  }

  std::string name_;
  const BlockGrid& grid_;
  const MeshShape& mesh_;
  std::int64_t across_;  // ranks along the last axis
  SvgDrawing drawing_;
  int width_ = 0, height_ = 0;
};

}  // namespace

std::string svg_picture(const std::string& name, const Layout& layout, const Shape& shape,
                        const MeshShape& mesh) {
  const BlockGrid grid(layout, shape, mesh);
  return SvgPicture(name, grid, mesh).draw();
}

}  // namespace meshwork
