// MaxPooling and AveragePooling, of images and of sequences: the maximum or the mean of each
// window, channel by channel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "layers/spatial.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct Pooling2DOptions {
  std::string name;
  RowsAndColumns pool_size = 2;
  std::optional<RowsAndColumns> strides = std::nullopt;  // none: as pool_size
  Padding padding = Padding::valid;
};

struct Pooling1DOptions {
  std::string name;
  std::int64_t pool_size = 2;
  std::optional<std::int64_t> strides = std::nullopt;  // none: as pool_size
  Padding padding = Padding::valid;
};

/// y (batch, rows, columns, channels) from x of the same form: the maximum over each window.
/// Padding never is one. No variables. Throws `Error` for lengths that are not positive; when
/// called, for inputs that are no images or that no window fits.
[[nodiscard]] SharedLayer MaxPooling2D(Pooling2DOptions options = {});
/// The mean over each window, of the elements that are no padding.
[[nodiscard]] SharedLayer AveragePooling2D(Pooling2DOptions options = {});
/// The same on (batch, steps, channels).
[[nodiscard]] SharedLayer MaxPooling1D(Pooling1DOptions options = {});
[[nodiscard]] SharedLayer AveragePooling1D(Pooling1DOptions options = {});

}  // namespace meshwork
