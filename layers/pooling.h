// MaxPooling and AveragePooling, of sequences, images and volumes: the maximum or the mean of each
// window, channel by channel. Their adaptive kin have a given number of windows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "layers/spatial.h"
#include "runtime/graph/layer.h"

namespace meshwork {

template <std::size_t dimensions>
struct PoolingOptions {
  std::string name;
  Lengths<dimensions> pool_size = 2;
  std::optional<Lengths<dimensions>> strides = std::nullopt;  // none: as pool_size
  Padding padding = Padding::valid;
};
using Pooling1DOptions = PoolingOptions<1>;
using Pooling2DOptions = PoolingOptions<2>;
using Pooling3DOptions = PoolingOptions<3>;

/// y (batch, rows, columns, channels) from x of the same form: the maximum over each window.
/// Padding never is one. No variables. Throws `Error` for lengths that are not positive; when
/// called, for inputs that are no images or that no window fits.
[[nodiscard]] SharedLayer MaxPooling2D(Pooling2DOptions options = {});
/// The mean over each window, of the elements that are no padding.
[[nodiscard]] SharedLayer AveragePooling2D(Pooling2DOptions options = {});
/// The same on (batch, steps, channels).
[[nodiscard]] SharedLayer MaxPooling1D(Pooling1DOptions options = {});
[[nodiscard]] SharedLayer AveragePooling1D(Pooling1DOptions options = {});
/// The same on (batch, planes, rows, columns, channels).
[[nodiscard]] SharedLayer MaxPooling3D(Pooling3DOptions options = {});
[[nodiscard]] SharedLayer AveragePooling3D(Pooling3DOptions options = {});

template <std::size_t dimensions>
struct AdaptivePoolingOptions {
  std::string name;
  Lengths<dimensions> output_size = 0;  // has to be given
};
using AdaptivePooling1DOptions = AdaptivePoolingOptions<1>;
using AdaptivePooling2DOptions = AdaptivePoolingOptions<2>;
using AdaptivePooling3DOptions = AdaptivePoolingOptions<3>;

/// y (batch, output rows, output columns, channels): the maximum of each bin. Of a dimension of n
/// elements, bin i of m is [floor(i n / m), ceil((i + 1) n / m)); neighbours may share an element.
/// No variables. Throws `Error`, when called, for inputs that are no images.
[[nodiscard]] SharedLayer AdaptiveMaxPooling2D(AdaptivePooling2DOptions options);
/// The mean of each bin.
[[nodiscard]] SharedLayer AdaptiveAveragePooling2D(AdaptivePooling2DOptions options);
/// The same on (batch, steps, channels).
[[nodiscard]] SharedLayer AdaptiveMaxPooling1D(AdaptivePooling1DOptions options);
[[nodiscard]] SharedLayer AdaptiveAveragePooling1D(AdaptivePooling1DOptions options);
/// The same on (batch, planes, rows, columns, channels).
[[nodiscard]] SharedLayer AdaptiveMaxPooling3D(AdaptivePooling3DOptions options);
[[nodiscard]] SharedLayer AdaptiveAveragePooling3D(AdaptivePooling3DOptions options);

}  // namespace meshwork
