// Resizing: images made as large as they are wanted.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/upsampling.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct ResizingOptions {
  std::string name;
  std::int64_t height = 0, width = 0;  // have to be given
  Interpolation interpolation = Interpolation::bilinear;
  bool crop_to_aspect_ratio = false;  // resize the largest part that has the result's proportions
  bool pad_to_aspect_ratio = false;   // or the image with borders of 0 that give it these
};

/// y (batch, height, width, channels) from images of another size, without antialiasing, in
/// training and prediction. No variables. Throws `Error` for both ways to keep proportions; when
/// called, for inputs that are no images.
[[nodiscard]] SharedLayer Resizing(ResizingOptions options);

}  // namespace meshwork
