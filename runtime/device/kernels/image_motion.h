// Images that are moved, each by a transform of its own.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"
#include "runtime/device/kernels/upsampling.h"

namespace meshwork {

enum class Motion : std::uint8_t { flip, translation, rotation, zoom, crop };

/// What stands outside of an image: a value, its outermost pixels, the image mirrored at its
/// border, or the image again.
enum class FillMode : std::uint8_t { constant, nearest, reflect, wrap };

/// Of each sample the numbers t[d] = low[d] + (high[d] - low[d]) * u[d] follow from its u (2), of
/// [0, 1); d is 0 for rows, 1 for columns; `joint`: u[0] stands for both. Pixel p of y is x at the
/// place q, for an image of n rows (columns) of x:
///   flip         q = n - 1 - p if u[d] < 1/2 and high[d] > 0, else p
///   translation  q = p - t[d] * n
///   rotation     around the middle, by t[0] turns
///   zoom         q = m + (p - m) * (1 + t[d]), with the middle m = (n - 1) / 2
///   crop         q = p + floor(t[d])
/// as in Keras's layers of the same names.
struct ImageMotion {
  Motion motion = Motion::flip;
  std::array<float, 2> low{}, high{};
  bool joint = false;
  Interpolation interpolation = Interpolation::nearest;
  FillMode fill = FillMode::constant;
  float fill_value = 0;
};

/// Of x (batch, rows, columns, channels) and y (batch, to_rows, to_columns, channels).
struct ImageMotionShape {
  std::int64_t batch = 0, rows = 0, columns = 0, to_rows = 0, to_columns = 0, channels = 0;
  [[nodiscard]] std::string text(std::string_view name) const {
    return spec::sized(name, {batch, rows, columns, to_rows, to_columns, channels});
  }
  [[nodiscard]] KernelWork work() const {
    return spec::rows(batch, (rows * columns + to_rows * to_columns) * channels);
  }
};

/// y = x at the places of `motion`. Operands: x, u (batch, 2), y.
struct ImageMotionSpec {
  ImageMotion motion;
  ImageMotionShape at;
  [[nodiscard]] std::string text() const { return at.text("image motion"); }
  [[nodiscard]] KernelWork work() const { return at.work(); }
};
/// Adds to dx what x contributed to y times dy. Operands: dy, u, dx.
struct ImageMotionGradientSpec {
  ImageMotion motion;
  ImageMotionShape at;
  [[nodiscard]] std::string text() const { return at.text("image motion gradient"); }
  [[nodiscard]] KernelWork work() const { return at.work(); }
};

}  // namespace meshwork
