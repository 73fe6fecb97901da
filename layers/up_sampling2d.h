// UpSampling2D: an image enlarged by whole factors.
#pragma once

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

}  // namespace meshwork
