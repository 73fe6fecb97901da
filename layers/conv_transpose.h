// Conv1DTranspose, Conv2DTranspose and Conv3DTranspose: every element lays its window, weighted,
// onto a larger sequence, image or volume.
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
struct ConvTransposeOptions {
  std::string name;
  std::int64_t filters = 0;             // length of the output's last dimension; has to be given
  Lengths<dimensions> kernel_size = 0;  // of the window; has to be given
  Lengths<dimensions> strides = 1;      // pixels of the output between windows
  Padding padding = Padding::valid;
  Lengths<dimensions> dilation_rate = 1;
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
using Conv1DTransposeOptions = ConvTransposeOptions<1>;
using Conv2DTransposeOptions = ConvTransposeOptions<2>;
using Conv3DTransposeOptions = ConvTransposeOptions<3>;

/// y (batch, rows, columns, filters) = activation(the transpose of a convolution, of x (batch,
/// rows, columns, channels) with kernel (kernel rows, kernel columns, filters, channels), + bias).
/// The image grows to rows * stride under "same" padding and to rows * stride + max(kernel extent -
/// stride, 0) under "valid", as in Keras without `output_padding`. Variables: `kernel`, and `bias`
/// if `use_bias`. Throws `Error` for lengths that are not positive; when called, for inputs that
/// are no images.
[[nodiscard]] SharedLayer Conv2DTranspose(Conv2DTransposeOptions options = {});
/// The same of sequences and of volumes.
[[nodiscard]] SharedLayer Conv1DTranspose(Conv1DTransposeOptions options = {});
[[nodiscard]] SharedLayer Conv3DTranspose(Conv3DTransposeOptions options = {});

}  // namespace meshwork
