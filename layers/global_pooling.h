// GlobalAveragePooling and GlobalMaxPooling, of sequences, images and volumes: one number for
// each channel.
#pragma once

#include <string>

#include "runtime/graph/layer.h"

namespace meshwork {

struct GlobalPoolingOptions {
  std::string name;
  bool keepdims = false;  // keep what is pooled as dimensions of length 1
};

/// y (batch, channels) = the mean of x (batch, rows, columns, channels) over rows and columns. No
/// variables. Throws `Error`, when called, for inputs that are no images.
[[nodiscard]] SharedLayer GlobalAveragePooling2D(GlobalPoolingOptions options = {});
/// The maximum; elements that are the maximum share its gradient equally.
[[nodiscard]] SharedLayer GlobalMaxPooling2D(GlobalPoolingOptions options = {});
/// The same of x (batch, steps, channels). Where x has a mask (runtime/graph/operations/mask.h), the
/// mean is over the steps that count, and 0 where none does.
[[nodiscard]] SharedLayer GlobalAveragePooling1D(GlobalPoolingOptions options = {});
[[nodiscard]] SharedLayer GlobalMaxPooling1D(GlobalPoolingOptions options = {});
/// The same of x (batch, planes, rows, columns, channels).
[[nodiscard]] SharedLayer GlobalAveragePooling3D(GlobalPoolingOptions options = {});
[[nodiscard]] SharedLayer GlobalMaxPooling3D(GlobalPoolingOptions options = {});

}  // namespace meshwork
