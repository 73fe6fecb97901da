// The network of configs/fashion_mnist_convnet.yaml, from images of 28 x 28 x 1 to ten scores.
#pragma once

#include <cstdint>
#include <string>

#include "layers/batch_normalization.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/global_pooling.h"
#include "layers/relu.h"
#include "runtime/device/kernels/activation.h"

namespace meshwork::test {

struct ConvnetOptions {
  std::int64_t hidden = 256;  // units
  float dropout = 0.5f;       // 0: none
  bool named = false;  // conv_1, norm_1, relu_1, conv_2 and so on, mean, hidden, drop, logits
};

inline SymbolicTensor convnet(const SymbolicTensor& image, const ConvnetOptions& options = {}) {
  const auto name = [&](const std::string& of_layer) {
    return options.named ? of_layer : std::string();
  };
  const auto block = [&](const SymbolicTensor& x, const std::string& number, std::int64_t filters,
                         std::int64_t kernel, std::int64_t stride) {
    const auto y = Conv2D({.name = name("conv_" + number),
                           .filters = filters,
                           .kernel_size = kernel,
                           .strides = stride,
                           .padding = Padding::same,
                           .use_bias = false})(x);
    return ReLU({.name = name("relu_" + number)})(
        BatchNormalization({.name = name("norm_" + number), .scale = false})(y));
  };
  auto y = block(block(block(image, "1", 12, 3, 1), "2", 24, 6, 2), "3", 32, 6, 2);
  y = GlobalAveragePooling2D({.name = name("mean")})(y);
  y = Dense({.name = name("hidden"), .units = options.hidden, .activation = Activation::relu})(y);
  if (options.dropout > 0) {
    y = Dropout({.name = name("drop"), .rate = options.dropout})(y);
  }
  return Dense({.name = name("logits"), .units = 10})(y);
}

}  // namespace meshwork::test
