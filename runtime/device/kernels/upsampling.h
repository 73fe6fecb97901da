// Images made larger, or smaller, and the gradient.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/device/kernels/page.h"

namespace meshwork {

enum class Interpolation : std::uint8_t { nearest, bilinear };

/// One spatial dimension of an image of `length` of which `made` elements are made. This rank holds
/// the image from `first_input` on (`input` of it) and makes the result from `first_output` on
/// (`output` of it); it must hold what its part of the result looks at, by `looked_at`.
struct UpsamplingDimension {
  std::int64_t length = 1, made = 1;
  std::int64_t first_input = 0, input = 1;
  std::int64_t first_output = 0, output = 1;
};

/// What global output o looks at: input `low`, and the next one, `high`, with the weight `part` /
/// (2 made); only `low` where that is 0.
///   nearest: (o + 1/2) length / made, rounded down;
///   bilinear: s = (o + 1/2) length / made - 1/2, cut to [0, length - 1]: floor(s) and the next.
struct LookedAt {
  std::int64_t low, high, part;
};
[[nodiscard]] LookedAt looked_at(std::int64_t output, std::int64_t length, std::int64_t made,
                                 Interpolation interpolation);

struct UpsamplingShape {
  std::int64_t batch = 0;
  UpsamplingDimension rows, columns;
  std::int64_t channels = 0;
  Interpolation interpolation = Interpolation::nearest;

  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] KernelWork work() const;
};

/// y (batch, output rows, output columns, channels) from x (batch, input rows, input columns,
/// channels): Keras's UpSampling2D and Resizing. Operands: x, y.
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
