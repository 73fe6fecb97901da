// ZeroPadding and Cropping, of sequences, images and volumes: zeros put around them, or their
// borders cut off. CenterCrop: the middle of an image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/config/node.h"
#include "runtime/graph/layer.h"

namespace meshwork {

/// Elements before and behind one dimension.
struct Sides {
  std::int64_t before = 0, behind = 0;
  Sides() = default;
  Sides(std::int64_t both) : before(both), behind(both) {}
  Sides(std::int64_t of_before, std::int64_t of_behind) : before(of_before), behind(of_behind) {}
};

/// How much is added or cut off, as in `.padding = 1`, `.padding = {1, 2}` (rows and columns; of a
/// sequence before and behind) or `.padding = {{0, 1}, {2, 2}}` (above and below, left and right);
/// alike in configurations.
template <std::size_t dimensions>
struct Borders {
  static constexpr const char* expected =
      dimensions == 1 ? "an integer of at least 0, or a list of two"
                      : (dimensions == 2 ? "an integer of at least 0, or a list of two, each an "
                                           "integer or a list of two"
                                         : "an integer of at least 0, or a list of three, each an "
                                           "integer or a list of two");
  std::array<Sides, dimensions> sides;
  Borders() = default;
  Borders(std::int64_t all) { sides.fill(all); }
  Borders(std::int64_t before, std::int64_t behind) requires(dimensions == 1)
      : sides{Sides(before, behind)} {}
  Borders(Sides rows, Sides columns) requires(dimensions == 2) : sides{rows, columns} {}
  Borders(Sides planes, Sides rows, Sides columns) requires(dimensions == 3)
      : sides{planes, rows, columns} {}
};

template <std::size_t dimensions>
struct ZeroPaddingOptions {
  std::string name;
  Borders<dimensions> padding = 1;
};

template <std::size_t dimensions>
struct CroppingOptions {
  std::string name;
  Borders<dimensions> cropping = dimensions == 2 ? 0 : 1;
};

/// y (batch, rows + what is added, columns + what is added, channels): x with zeros around it, or
/// without its borders. No variables. Throws `Error` for negative borders; when called, for inputs
/// of another number of dimensions, and for those that cropping leaves nothing of.
[[nodiscard]] SharedLayer ZeroPadding1D(ZeroPaddingOptions<1> options = {});
[[nodiscard]] SharedLayer ZeroPadding2D(ZeroPaddingOptions<2> options = {});
[[nodiscard]] SharedLayer ZeroPadding3D(ZeroPaddingOptions<3> options = {});
[[nodiscard]] SharedLayer Cropping1D(CroppingOptions<1> options = {});
[[nodiscard]] SharedLayer Cropping2D(CroppingOptions<2> options = {});
[[nodiscard]] SharedLayer Cropping3D(CroppingOptions<3> options = {});

struct CenterCropOptions {
  std::string name;
  std::int64_t height = 0, width = 0;  // have to be given
};

/// y (batch, height, width, channels): the middle of x; of an odd rest, the larger half is cut off
/// below and at the right. No variables. Throws `Error`, when called, for inputs that are no images,
/// and for smaller ones, which Keras would enlarge.
[[nodiscard]] SharedLayer CenterCrop(CenterCropOptions options);

}  // namespace meshwork
