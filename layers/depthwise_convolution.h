// DepthwiseConv and SeparableConv, of sequences and images: convolutions of each channel by itself,
// alone or mixed by a product at each place.
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
struct DepthwiseConvOptions {
  std::string name;
  Lengths<dimensions> kernel_size = 0;  // of the window; has to be given
  Lengths<dimensions> strides = 1;
  Padding padding = Padding::valid;
  std::int64_t depth_multiplier = 1;  // outputs of a channel
  Lengths<dimensions> dilation_rate = 1;
  Activation activation = Activation::linear;
  bool use_bias = true;
  Initializer depthwise_initializer = GlorotUniform();
  Initializer bias_initializer = Zeros();
  Regularizer depthwise_regularizer;
  Regularizer bias_regularizer;
  Constraint depthwise_constraint;
  Constraint bias_constraint;
  bool trainable = true;
};

/// y (batch, rows, columns, channels * depth_multiplier), the outputs of a channel side by side.
/// Variables: `kernel` (kernel rows, kernel columns, channels, depth_multiplier), and `bias` if
/// `use_bias`. Throws `Error` as Conv2D does.
[[nodiscard]] SharedLayer DepthwiseConv2D(DepthwiseConvOptions<2> options = {});
/// The same on x (batch, steps, channels).
[[nodiscard]] SharedLayer DepthwiseConv1D(DepthwiseConvOptions<1> options = {});

template <std::size_t dimensions>
struct SeparableConvOptions {
  std::string name;
  std::int64_t filters = 0;             // length of the output's last dimension; has to be given
  Lengths<dimensions> kernel_size = 0;  // of the window; has to be given
  Lengths<dimensions> strides = 1;
  Padding padding = Padding::valid;
  Lengths<dimensions> dilation_rate = 1;
  std::int64_t depth_multiplier = 1;
  Activation activation = Activation::linear;
  bool use_bias = true;
  Initializer depthwise_initializer = GlorotUniform();
  Initializer pointwise_initializer = GlorotUniform();
  Initializer bias_initializer = Zeros();
  Regularizer depthwise_regularizer;
  Regularizer pointwise_regularizer;
  Regularizer bias_regularizer;
  Constraint depthwise_constraint;
  Constraint pointwise_constraint;
  Constraint bias_constraint;
  bool trainable = true;
};

/// y (batch, rows, columns, filters): a depthwise convolution, then one of windows of one place.
/// Variables: `depthwise_kernel`, as above, `pointwise_kernel` (1, 1, channels * depth_multiplier,
/// filters), and `bias` if `use_bias`. Throws `Error` as Conv2D does.
[[nodiscard]] SharedLayer SeparableConv2D(SeparableConvOptions<2> options = {});
/// The same on x (batch, steps, channels).
[[nodiscard]] SharedLayer SeparableConv1D(SeparableConvOptions<1> options = {});

}  // namespace meshwork
