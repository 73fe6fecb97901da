// The layers over images, spread in every legal way.
//
// Images are 7 x 5: over two and three ranks blocks differ, over four some are empty; windows are
// wider than blocks, strides do not divide, and groups fall together with blocks or do not.
#include <algorithm>

#include "layers/activation.h"
#include "layers/add.h"
#include "layers/augmentation.h"
#include "layers/batch_normalization.h"
#include "layers/borders.h"
#include "layers/conv_transpose.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/depthwise_convolution.h"
#include "layers/flatten.h"
#include "layers/global_pooling.h"
#include "layers/group_normalization.h"
#include "layers/identity.h"
#include "layers/initializers/ones.h"
#include "layers/initializers/random_uniform.h"
#include "layers/layer_normalization.h"
#include "layers/noise.h"
#include "layers/permute.h"
#include "layers/pooling.h"
#include "layers/relu.h"
#include "layers/repeat_vector.h"
#include "layers/resizing.h"
#include "layers/softmax.h"
#include "layers/up_sampling.h"
#include "tests/support/layer_spread.h"

namespace meshwork::spread_images_test {

using namespace meshwork::test;

namespace {

const Initializer random_bias = RandomUniform();

// A layer on images of 7 x 5 with `channels` channels.
void add(std::vector<Case>& cases, const std::string& name, std::int64_t channels,
         const SharedLayer& layer, const std::vector<std::string>& variables = {},
         const Shape& places = {7, 5}) {
  Shape sample = places;
  sample.push_back(2);
  std::vector<std::string> spread{"layer/output", "front/output"};
  for (const std::string& variable : variables) {
    spread.push_back("layer/" + variable);
  }
  append(cases, with_and_without_tail(
                    name, sample,
                    [=](const SymbolicTensor& x) { return layer(front(channels)(x)); }, spread));
}

std::vector<Case> convolution_cases() {
  const std::vector<std::string> kernel{"kernel"};
  const std::vector<std::string> both{"kernel", "bias"};
  std::vector<Case> cases;
  const auto conv = [&](const std::string& name, std::int64_t channels, Conv2DOptions options) {
    options.name = "layer";
    options.bias_initializer = random_bias;
    add(cases, name, channels, Conv2D(options), options.use_bias ? both : kernel);
  };
  conv("Conv2D", 3,
       {.filters = 5, .kernel_size = 3, .padding = Padding::same, .activation = Activation::relu});
  conv("Conv2D, valid, strides", 3,
       {.filters = 4, .kernel_size = {3, 2}, .strides = {2, 3}, .activation = Activation::tanh});
  conv("Conv2D, same, strides that do not divide", 2,
       {.filters = 3,
        .kernel_size = 3,
        .strides = {3, 2},
        .padding = Padding::same,
        .use_bias = false});
  conv("Conv2D, a window wider than a block", 2,
       {.filters = 3, .kernel_size = {6, 5}, .padding = Padding::same, .use_bias = false});
  conv("Conv2D, dilation", 2,
       {.filters = 3, .kernel_size = 3, .padding = Padding::same, .dilation_rate = {2, 3}});
  conv("Conv2D, groups", 6,
       {.filters = 12,
        .kernel_size = {3, 2},
        .padding = Padding::same,
        .groups = 6,
        .activation = Activation::relu});
  conv("Conv2D, groups that blocks miss", 4,
       {.filters = 10,
        .kernel_size = {2, 3},
        .padding = Padding::same,
        .groups = 2,
        .activation = Activation::relu});
  conv("Conv2D, depthwise", 5,
       {.filters = 5, .kernel_size = 3, .padding = Padding::same, .groups = 5, .use_bias = false});
  add(cases, "Conv1D", 3,
      Conv1D({.name = "layer",
              .filters = 4,
              .kernel_size = 3,
              .strides = 2,
              .padding = Padding::same,
              .bias_initializer = random_bias}),
      both, {11});
  add(cases, "Conv1D, causal", 3,
      Conv1D({.name = "layer",
              .filters = 4,
              .kernel_size = 3,
              .strides = 2,
              .padding = Padding::causal,
              .dilation_rate = 2,
              .bias_initializer = random_bias}),
      both, {11});
  add(cases, "Conv2DTranspose", 3,
      Conv2DTranspose({.name = "layer",
                       .filters = 2,
                       .kernel_size = 3,
                       .strides = 2,
                       .padding = Padding::same,
                       .activation = Activation::relu,
                       .bias_initializer = random_bias}),
      both, {4, 3});
  add(cases, "Conv2DTranspose, valid", 2,
      Conv2DTranspose({.name = "layer",
                       .filters = 3,
                       .kernel_size = {2, 4},
                       .strides = {3, 2},
                       .use_bias = false}),
      kernel, {4, 3});
  return cases;
}

std::vector<Case> apart_cases() {
  std::vector<Case> cases;
  add(cases, "DepthwiseConv2D", 5,
      DepthwiseConv2D({.name = "layer",
                       .kernel_size = 3,
                       .padding = Padding::same,
                       .depth_multiplier = 2,
                       .bias_initializer = random_bias}),
      {"kernel", "bias"}, {4, 3});
  add(cases, "DepthwiseConv1D", 3, DepthwiseConv1D({.name = "layer", .kernel_size = 3}), {"kernel"},
      {11});
  add(cases, "SeparableConv2D", 3,
      SeparableConv2D({.name = "layer",
                       .filters = 4,
                       .kernel_size = {2, 3},
                       .strides = 2,
                       .padding = Padding::same,
                       .depth_multiplier = 2,
                       .activation = Activation::relu,
                       .bias_initializer = random_bias}),
      {"depthwise_kernel", "pointwise_kernel"}, {5, 4});
  add(cases, "SeparableConv1D", 3,
      SeparableConv1D({.name = "layer", .filters = 2, .kernel_size = 3, .use_bias = false}),
      {"depthwise_kernel", "pointwise_kernel"}, {11});
  return cases;
}

std::vector<Case> volume_cases() {
  std::vector<Case> cases;
  const Shape places{4, 3, 5};
  add(cases, "Conv3D", 3,
      Conv3D({.name = "layer",
              .filters = 4,
              .kernel_size = {3, 2, 3},
              .padding = Padding::same,
              .activation = Activation::relu,
              .bias_initializer = random_bias}),
      {"kernel", "bias"}, places);
  add(cases, "Conv3D, valid, strides, groups", 4,
      Conv3D({.name = "layer",
              .filters = 6,
              .kernel_size = 2,
              .strides = {2, 1, 3},
              .groups = 2,
              .use_bias = false}),
      {"kernel"}, places);
  add(cases, "Conv3DTranspose", 3,
      Conv3DTranspose({.name = "layer",
                       .filters = 2,
                       .kernel_size = {3, 2, 2},
                       .strides = {2, 1, 2},
                       .padding = Padding::same,
                       .bias_initializer = random_bias}),
      {"kernel", "bias"}, {3, 2, 2});
  add(cases, "Conv1DTranspose", 3,
      Conv1DTranspose({.name = "layer", .filters = 2, .kernel_size = 3, .strides = 2}), {"kernel"},
      {7});
  add(cases, "MaxPooling3D", 2,
      MaxPooling3D({.name = "layer", .pool_size = 3, .strides = 2, .padding = Padding::same}), {},
      places);
  add(cases, "AveragePooling3D", 2, AveragePooling3D({.name = "layer", .padding = Padding::same}),
      {}, places);
  add(cases, "AdaptiveMaxPooling3D", 2,
      AdaptiveMaxPooling3D({.name = "layer", .output_size = {2, 3, 2}}), {}, places);
  add(cases, "GlobalAveragePooling3D", 3, GlobalAveragePooling3D({.name = "layer"}), {}, places);
  add(cases, "GlobalMaxPooling3D", 3, GlobalMaxPooling3D({.name = "layer"}), {}, places);
  add(cases, "UpSampling3D", 2, UpSampling3D({.name = "layer", .size = {2, 1, 3}}), {}, {3, 2, 2});
  return cases;
}

std::vector<Case> pooling_cases() {
  std::vector<Case> cases;
  add(cases, "MaxPooling2D", 3, MaxPooling2D({.name = "layer"}));
  add(cases, "MaxPooling2D, same, overlapping", 3,
      MaxPooling2D({.name = "layer", .pool_size = 3, .strides = 2, .padding = Padding::same}));
  add(cases, "AveragePooling2D, same", 3,
      AveragePooling2D({.name = "layer", .pool_size = {3, 2}, .padding = Padding::same}));
  add(cases, "AdaptiveMaxPooling2D", 3,
      AdaptiveMaxPooling2D({.name = "layer", .output_size = {3, 4}}));
  add(cases, "AdaptiveAveragePooling2D", 3,
      AdaptiveAveragePooling2D({.name = "layer", .output_size = {5, 2}}));
  add(cases, "AdaptiveAveragePooling1D", 3,
      AdaptiveAveragePooling1D({.name = "layer", .output_size = 4}), {}, {11});
  add(cases, "MaxPooling1D", 3, MaxPooling1D({.name = "layer"}), {}, {11});
  add(cases, "AveragePooling1D", 3, AveragePooling1D({.name = "layer", .pool_size = 3}), {}, {11});
  add(cases, "GlobalAveragePooling2D", 5, GlobalAveragePooling2D({.name = "layer"}));
  add(cases, "GlobalAveragePooling2D, kept", 3,
      GlobalAveragePooling2D({.name = "layer", .keepdims = true}));
  add(cases, "GlobalMaxPooling2D", 5, GlobalMaxPooling2D({.name = "layer"}));
  add(cases, "GlobalAveragePooling1D", 3, GlobalAveragePooling1D({.name = "layer"}), {}, {7});
  add(cases, "GlobalMaxPooling1D", 3, GlobalMaxPooling1D({.name = "layer"}), {}, {7});
  return cases;
}

std::vector<Case> normalization_cases() {
  std::vector<Case> cases;
  add(cases, "BatchNormalization", 5, BatchNormalization({.name = "layer"}),
      {"gamma", "beta", "moving_mean", "moving_variance"});
  add(cases, "BatchNormalization without scale", 3,
      BatchNormalization({.name = "layer", .momentum = 0.5, .scale = false}),
      {"beta", "moving_mean"});
  add(cases, "BatchNormalization, frozen", 3,
      BatchNormalization({.name = "layer",
                          .trainable = false,
                          .moving_mean_initializer = random_bias,
                          .moving_variance_initializer = Ones()}),
      {"gamma", "moving_variance"});
  add(cases, "BatchNormalization of two dimensions", 7, BatchNormalization({.name = "layer"}),
      {"gamma", "moving_mean"}, {});
  append(cases, with_and_without_tail(
                    "BatchNormalization and ReLU behind a convolution", {7, 5, 2},
                    [](const SymbolicTensor& x) {
                      const auto y = Conv2D({.name = "layer",
                                             .filters = 5,
                                             .kernel_size = 3,
                                             .padding = Padding::same,
                                             .use_bias = false})(front(3)(x));
                      return ReLU({.name = "relu"})(BatchNormalization({.name = "norm"})(y));
                    },
                    {"layer/kernel", "layer/output", "norm/output", "relu/output", "norm/gamma"}));
  return cases;
}

// Whose statistics are those of a sample, in training and after it.
std::vector<Case> sample_normalization_cases() {
  const std::vector<std::string> both{"gamma", "beta"};
  std::vector<Case> cases;
  add(cases, "LayerNormalization", 5,
      LayerNormalization({.name = "layer", .beta_initializer = random_bias}), {"gamma", "beta"},
      {7});
  add(cases, "LayerNormalization of images without beta", 3,
      LayerNormalization({.name = "layer", .center = false, .gamma_initializer = random_bias}),
      {"gamma"});
  add(cases, "LayerNormalization without gamma", 7,
      LayerNormalization({.name = "layer", .epsilon = 0.5, .scale = false}), {"beta"}, {});
  add(cases, "RMSNormalization", 5, RMSNormalization({.name = "layer"}), {"scale"}, {7});
  add(cases, "GroupNormalization", 6,
      GroupNormalization({.name = "layer", .groups = 3, .gamma_initializer = random_bias}), both);
  add(cases, "GroupNormalization, a channel each", 3,
      GroupNormalization({.name = "layer", .groups = -1, .center = false}), {"gamma"}, {3, 2, 4});
  return cases;
}

std::vector<Case> noise_cases() {
  std::vector<Case> cases;
  add(cases, "GaussianNoise", 3, GaussianNoise({.name = "layer", .stddev = 0.5f}));
  add(cases, "SpatialDropout2D", 5, SpatialDropout2D({.name = "layer", .rate = 0.4f}));
  add(cases, "SpatialDropout3D", 5, SpatialDropout3D({.name = "layer", .rate = 0.4f}), {},
      {3, 2, 3});
  return cases;
}

std::vector<Case> augmentation_cases() {
  std::vector<Case> cases;
  add(cases, "RandomFlip", 3, RandomFlip({.name = "layer"}));
  add(cases, "RandomTranslation", 3,
      RandomTranslation({.name = "layer", .height_factor = 0.5f, .width_factor = 0.5f}));
  add(cases, "RandomRotation", 2, RandomRotation({.name = "layer", .factor = 0.5f}));
  add(cases, "RandomZoom", 2, RandomZoom({.name = "layer", .height_factor = 0.5f}));
  // The values in front are some -2 to 2, so that some are cut.
  add(cases, "RandomBrightness", 3,
      RandomBrightness({.name = "layer", .factor = 0.5f, .value_range = {-1, 1}}));
  add(cases, "RandomContrast", 3,
      RandomContrast({.name = "layer", .factor = {0.5f, 1}, .value_range = {-1, 1}}));
  add(cases, "RandomCrop", 3, RandomCrop({.name = "layer", .height = 4, .width = 3}));
  return cases;
}

std::vector<Case> moving_cases() {
  std::vector<Case> cases;
  add(cases, "Resizing", 2, Resizing({.name = "layer", .height = 4, .width = 9}));
  add(cases, "Resizing, cropped", 3,
      Resizing({.name = "layer", .height = 3, .width = 3, .crop_to_aspect_ratio = true}));
  add(cases, "ZeroPadding2D", 2, ZeroPadding2D({.name = "layer", .padding = {{1, 2}, {0, 6}}}));
  add(cases, "ZeroPadding1D", 3, ZeroPadding1D({.name = "layer", .padding = {2, 1}}), {}, {7});
  add(cases, "ZeroPadding3D", 2, ZeroPadding3D({.name = "layer"}), {}, {3, 2, 2});
  add(cases, "Cropping1D", 3, Cropping1D({.name = "layer", .cropping = {2, 1}}), {}, {11});
  add(cases, "Cropping2D", 2, Cropping2D({.name = "layer", .cropping = {{1, 2}, {0, 3}}}));
  add(cases, "CenterCrop", 2, CenterCrop({.name = "layer", .height = 4, .width = 3}));
  add(cases, "Identity", 3, Identity({.name = "layer"}));
  add(cases, "Cropping3D", 2, Cropping3D({.name = "layer"}), {}, {3, 4, 5});
  add(cases, "UpSampling1D", 3, UpSampling1D({.name = "layer", .size = 3}), {}, {5});
  add(cases, "RepeatVector", 5, RepeatVector({.name = "layer", .n = 3}), {}, {});
  add(cases, "UpSampling2D", 2, UpSampling2D({.name = "layer", .size = {2, 3}}), {}, {4, 3});
  add(cases, "UpSampling2D, bilinear", 2,
      UpSampling2D({.name = "layer", .interpolation = Interpolation::bilinear}), {}, {4, 3});
  add(cases, "Permute", 3, Permute({.name = "layer", .dims = {3, 1, 2}}));
  add(cases, "Softmax over rows", 3, Softmax({.name = "layer", .axis = 1}));
  add(cases, "ReLU", 3, ReLU({.name = "layer"}));
  add(cases, "ReLU with a slope and a limit", 3,
      ReLU({.name = "layer", .max_value = 0.5f, .negative_slope = 0.25f}));
  for (const bool bias : {false, true}) {
    append(
        cases,
        with_and_without_tail(
            bias ? "Flatten, then Dense" : "Flatten, then Dense without bias", {7, 5, 2},
            [=](const SymbolicTensor& x) {
              return Dense(
                  {.name = "layer", .units = 3, .use_bias = bias, .bias_initializer = random_bias})(
                  Flatten({.name = "flat"})(front(3)(x)));
            },
            {"front/output", "layer/kernel", "layer/output"}));
  }
  append(cases,
         with_and_without_tail(
             "a small network", {7, 5, 1},
             [](const SymbolicTensor& x) {
               auto y = Conv2D({.name = "conv_1",
                                .filters = 4,
                                .kernel_size = 3,
                                .padding = Padding::same,
                                .use_bias = false})(x);
               y = ReLU({.name = "relu"})(BatchNormalization({.name = "norm"})(y));
               y = MaxPooling2D({.name = "pool", .padding = Padding::same})(y);
               y = Conv2D({.name = "conv_2",
                           .filters = 6,
                           .kernel_size = 2,
                           .padding = Padding::same,
                           .activation = Activation::relu})(y);
               return GlobalAveragePooling2D({.name = "mean"})(y);
             },
             {"conv_1/kernel", "conv_1/output", "conv_2/kernel", "conv_2/output", "pool/output"}));
  return cases;
}

}  // namespace

TEST_CASE("on one rank the gradients of every layer of images are those of differences") {
  if (Communicator::world().size() > 1) {
    return;  // the same on every rank
  }
  check_differences(convolution_cases());
  check_differences(apart_cases());
  check_differences(volume_cases());
  check_differences(sample_normalization_cases());
  check_differences(pooling_cases());
  std::vector<Case> others = moving_cases();
  // With statistics of the batch, a layer evaluates another function than it trains.
  std::erase_if(others,
                [](const Case& subject) { return subject.name.starts_with("a small network"); });
  check_differences(others);
}

TEST_CASE("a convolution, spread in any way, gives the numbers of one rank") {
  check(convolution_cases(), 4);
}

TEST_CASE("a convolution of single channels, spread in any way, gives the numbers of one rank") {
  check(apart_cases(), 4);
}

TEST_CASE("layers of volumes, spread in any way, give the numbers of one rank") {
  check(volume_cases(), 4);
}

TEST_CASE("pooling, spread in any way, gives the numbers of one rank") {
  check(pooling_cases(), 4);
}

TEST_CASE("batch normalization, spread in any way, gives the numbers of one rank") {
  check(normalization_cases(), 4);
}

TEST_CASE("normalization of samples, spread in any way, gives the numbers of one rank") {
  check(sample_normalization_cases(), 4);
}

TEST_CASE("noise on images that are split in any way is that of one rank") {
  check(noise_cases(), 4);
  check(augmentation_cases(), 4);
}

TEST_CASE("padding, enlarging, permuting and flattening, spread in any way, give those numbers") {
  check(moving_cases(), 4);
}

}  // namespace meshwork::spread_images_test
