// UpSampling1D, UpSampling2D and UpSampling3D: sequences, images and volumes enlarged by whole
// factors.
#pragma once

#include <cstddef>
#include <string>

#include "layers/spatial.h"
#include "runtime/device/kernels/upsampling.h"
#include "runtime/graph/layer.h"

namespace meshwork {

template <std::size_t dimensions>
struct UpSamplingOptions {
  std::string name;
  Lengths<dimensions> size = 2;  // factors
};
using UpSampling1DOptions = UpSamplingOptions<1>;
using UpSampling3DOptions = UpSamplingOptions<3>;

struct UpSampling2DOptions {
  std::string name;
  Lengths<2> size = 2;  // factors
  Interpolation interpolation = Interpolation::nearest;
};

/// y (batch, rows * factor, columns * factor, channels): each pixel of x repeated (nearest), or
/// interpolated between the centres of pixels (bilinear), as Keras does. No variables. Throws
/// `Error` for factors that are not positive; when called, for inputs that are no images.
[[nodiscard]] SharedLayer UpSampling2D(UpSampling2DOptions options = {});
/// y (batch, steps * factor, channels): each step of x repeated.
[[nodiscard]] SharedLayer UpSampling1D(UpSampling1DOptions options = {});
/// The same of planes, rows and columns.
[[nodiscard]] SharedLayer UpSampling3D(UpSampling3DOptions options = {});

}  // namespace meshwork
