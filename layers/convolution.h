// Conv1D, Conv2D and Conv3D: windows that slide over a sequence, an image or a volume, each output
// a weighted sum of what its window shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "layers/initializers/glorot.h"
#include "layers/initializers/zeros.h"
#include "layers/spatial.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/graph/layer.h"

namespace meshwork {

template <std::size_t dimensions>
struct ConvOptions {
  std::string name;
  std::int64_t filters = 0;             // length of the output's last dimension; has to be given
  Lengths<dimensions> kernel_size = 0;  // of the window; has to be given
  Lengths<dimensions> strides = 1;
  Padding padding = Padding::valid;
  Lengths<dimensions> dilation_rate = 1;
  std::int64_t groups = 1;  // filters see the channels of their group; groups = channels: depthwise
  Activation activation = Activation::linear;
  bool use_bias = true;
  Initializer kernel_initializer = GlorotUniform();
  Initializer bias_initializer = Zeros();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  Constraint kernel_constraint;
  Constraint bias_constraint;
  bool trainable = true;
};
using Conv1DOptions = ConvOptions<1>;
using Conv2DOptions = ConvOptions<2>;
using Conv3DOptions = ConvOptions<3>;

/// y (batch, rows, columns, filters) = activation(x * kernel + bias (filters)), where * is the
/// cross-correlation of x (batch, rows, columns, channels) with kernel (kernel rows, kernel columns,
/// channels / groups, filters). Windows and padding are as in runtime/graph/operations/windows.h.
/// Variables: `kernel`, and `bias` if `use_bias`. Throws `Error` for lengths that are not positive,
/// and for filters that `groups` does not divide. When called, it throws for inputs that are no
/// images, that no window fits, or whose channels `groups` does not divide.
[[nodiscard]] SharedLayer Conv2D(Conv2DOptions options = {});
/// The same on x (batch, steps, channels), with kernel (kernel size, channels / groups, filters).
[[nodiscard]] SharedLayer Conv1D(Conv1DOptions options = {});
/// The same on x (batch, planes, rows, columns, channels), with kernel (kernel planes, kernel rows,
/// kernel columns, channels / groups, filters).
[[nodiscard]] SharedLayer Conv3D(Conv3DOptions options = {});

}  // namespace meshwork
