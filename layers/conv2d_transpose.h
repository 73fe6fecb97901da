// Conv2DTranspose: every pixel lays its window, weighted, onto a larger image.
#pragma once

#include <cstdint>
#include <string>

#include "layers/spatial.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/graph/layer.h"

namespace meshwork {

struct Conv2DTransposeOptions {
  std::string name;
  std::int64_t filters = 0;        // length of the output's last dimension; has to be given
  RowsAndColumns kernel_size = 0;  // of the window; has to be given
  RowsAndColumns strides = 1;      // pixels of the output between windows
  Padding padding = Padding::valid;
  RowsAndColumns dilation_rate = 1;
  Activation activation = Activation::linear;
  bool use_bias = true;
  Initializer kernel_initializer = initializer_by_name("glorot_uniform");
  Initializer bias_initializer = initializer_by_name("zeros");
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  bool trainable = true;
};

/// y (batch, rows, columns, filters) = activation(the transpose of a convolution, of x (batch,
/// rows, columns, channels) with kernel (kernel rows, kernel columns, filters, channels), + bias).
/// The image grows to rows * stride under "same" padding and to rows * stride + max(kernel extent -
/// stride, 0) under "valid", as in Keras without `output_padding`. Variables: `kernel`, and `bias`
/// if `use_bias`. Throws `Error` for lengths that are not positive; when called, for inputs that
/// are no images.
[[nodiscard]] SharedLayer Conv2DTranspose(Conv2DTransposeOptions options = {});

}  // namespace meshwork
