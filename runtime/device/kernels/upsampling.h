// Upsampling, and its gradient.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/device/kernels/page.h"

namespace meshwork {

enum class Interpolation : std::uint8_t { nearest, bilinear };

/// One spatial dimension of an image of `length` that is enlarged `factor` times. This rank holds
/// the image from `first_input` on (`input` of it) and makes the result from `first_output` on
/// (`output` of it); it must hold what its part of the result looks at. Global output o looks at
///   nearest: o / factor, rounded down;
///   bilinear: s = (o + 1/2) / factor - 1/2, cut to [0, length - 1]: input floor(s) with weight
///   1 - (s - floor(s)), the next one with the rest.
struct UpsamplingDimension {
  std::int64_t length = 1, factor = 1;
  std::int64_t first_input = 0, input = 1;
  std::int64_t first_output = 0, output = 1;
};

struct UpsamplingShape {
  std::int64_t batch = 0;
  UpsamplingDimension rows, columns;
  std::int64_t channels = 0;
  Interpolation interpolation = Interpolation::nearest;

  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] KernelWork work() const;
};

/// y (batch, output rows, output columns, channels) from x (batch, input rows, input columns,
/// channels): Keras's UpSampling2D. Operands: x, y.
struct UpsamplingSpec {
  UpsamplingShape at;
  [[nodiscard]] std::string text() const { return at.text("upsampling"); }
  [[nodiscard]] KernelWork work() const { return at.work(); }
};
/// dx (as x) = the gradient by what the rank holds of its part of the result; 0 where that does not
/// look. Operands: dy, dx.
struct UpsamplingGradientSpec {
  UpsamplingShape at;
  [[nodiscard]] std::string text() const { return at.text("upsampling gradient"); }
  [[nodiscard]] KernelWork work() const { return at.work(); }
};

}  // namespace meshwork
