// UpSampling1D and UpSampling2D: a sequence and an image enlarged by whole factors.
#pragma once

#include <cstdint>
#include <string>

#include "layers/spatial.h"
#include "runtime/device/kernels/upsampling.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct UpSampling2DOptions {
  std::string name;
  RowsAndColumns size = 2;  // factors
  Interpolation interpolation = Interpolation::nearest;
};

/// y (batch, rows * factor, columns * factor, channels): each pixel of x repeated (nearest), or
/// interpolated between the centres of pixels (bilinear), as Keras does. No variables. Throws
/// `Error` for factors that are not positive; when called, for inputs that are no images.
[[nodiscard]] SharedLayer UpSampling2D(UpSampling2DOptions options = {});

struct UpSampling1DOptions {
  std::string name;
  std::int64_t size = 2;  // the factor
};

/// y (batch, steps * factor, channels): each step of x repeated.
[[nodiscard]] SharedLayer UpSampling1D(UpSampling1DOptions options = {});

}  // namespace meshwork
