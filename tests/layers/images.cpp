// The layers over images: variables, shapes, defaults and errors.
#include "collectives/error.h"
#include "layers/batch_normalization.h"
#include "layers/borders.h"
#include "layers/conv_transpose.h"
#include "layers/convolution.h"
#include "layers/depthwise_convolution.h"
#include "layers/global_pooling.h"
#include "layers/initializers/ones.h"
#include "layers/initializers/zeros.h"
#include "layers/permute.h"
#include "layers/pooling.h"
#include "layers/relu.h"
#include "layers/repeat_vector.h"
#include "layers/softmax.h"
#include "layers/up_sampling.h"
#include "tests/support/catch.h"

namespace meshwork::images_test {

namespace {

Shape shape_after(const SharedLayer& layer, const Shape& sample) {
  return layer(Input(sample)).shape();
}

// "path shape", with a * behind what is not trained.
std::vector<std::string> variables_of(const SharedLayer& layer, const Shape& sample) {
  const auto x = Input(sample);
  const Graph graph = make_graph({x}, {layer(x)});
  std::vector<std::string> variables;
  for (const Variable& variable : graph.variables) {
    variables.push_back(variable.path + " " + to_string(variable.options.shape) +
                        (variable.options.trainable ? "" : " *"));
  }
  return variables;
}

}  // namespace

TEST_CASE("convolutions have Keras's shapes and variables") {
  const Shape image{28, 27, 6};
  CHECK(shape_after(Conv2D({.filters = 4, .kernel_size = 3}), image) == Shape{-1, 26, 25, 4});
  CHECK(shape_after(
            Conv2D({.filters = 4, .kernel_size = {6, 5}, .strides = 2, .padding = Padding::same}),
            image) == Shape{-1, 14, 14, 4});
  CHECK(shape_after(Conv2D({.filters = 4, .kernel_size = {3, 5}, .dilation_rate = {4, 2}}),
                    image) == Shape{-1, 20, 19, 4});
  CHECK(shape_after(Conv1D({.filters = 4, .kernel_size = 3, .strides = 2}), {9, 2}) ==
        Shape{-1, 4, 4});
  CHECK(variables_of(Conv2D({.filters = 4, .kernel_size = {3, 5}}), image) ==
        std::vector<std::string>{"conv2d/kernel (3, 5, 6, 4)", "conv2d/bias (4)"});
  CHECK(variables_of(
            Conv2D({.name = "c", .filters = 6, .kernel_size = 3, .groups = 3, .use_bias = false}),
            image) == std::vector<std::string>{"c/kernel (3, 3, 2, 6)"});
  CHECK(variables_of(Conv1D({.filters = 4, .kernel_size = 3}), {9, 2}) ==
        std::vector<std::string>{"conv1d/kernel (3, 2, 4)", "conv1d/bias (4)"});
  CHECK(shape_after(Conv2DTranspose(
                        {.filters = 4, .kernel_size = 3, .strides = 2, .padding = Padding::same}),
                    image) == Shape{-1, 56, 54, 4});
  CHECK(shape_after(Conv2DTranspose({.filters = 4, .kernel_size = {3, 1}, .strides = 2}), image) ==
        Shape{-1, 57, 54, 4});
  CHECK(variables_of(Conv2DTranspose({.filters = 4, .kernel_size = {3, 5}}), image) ==
        std::vector<std::string>{"conv2d_transpose/kernel (3, 5, 4, 6)",
                                 "conv2d_transpose/bias (4)"});
}

TEST_CASE("depthwise and separable convolutions have Keras's shapes and variables") {
  const Shape image{28, 27, 6};
  CHECK(shape_after(DepthwiseConv2D({.kernel_size = {3, 5}, .depth_multiplier = 2}), image) ==
        Shape{-1, 26, 23, 12});
  CHECK(variables_of(DepthwiseConv2D({.kernel_size = {3, 5}, .depth_multiplier = 2}), image) ==
        std::vector<std::string>{"depthwise_conv2d/kernel (3, 5, 6, 2)",
                                 "depthwise_conv2d/bias (12)"});
  CHECK(variables_of(DepthwiseConv1D({.kernel_size = 3, .use_bias = false}), {9, 4}) ==
        std::vector<std::string>{"depthwise_conv1d/kernel (3, 4, 1)"});
  CHECK(shape_after(SeparableConv2D({.filters = 4, .kernel_size = 3, .strides = 2}), image) ==
        Shape{-1, 13, 13, 4});
  CHECK(variables_of(SeparableConv2D({.filters = 4, .kernel_size = 3, .depth_multiplier = 2}),
                     image) ==
        std::vector<std::string>{"separable_conv2d/depthwise_kernel (3, 3, 6, 2)",
                                 "separable_conv2d/pointwise_kernel (1, 1, 12, 4)",
                                 "separable_conv2d/bias (4)"});
  CHECK(
      variables_of(SeparableConv1D({.filters = 4, .kernel_size = 3, .use_bias = false}), {9, 2}) ==
      std::vector<std::string>{"separable_conv1d/depthwise_kernel (3, 2, 1)",
                               "separable_conv1d/pointwise_kernel (1, 2, 4)"});
}

TEST_CASE("layers of volumes have Keras's shapes and variables") {
  const Shape volume{9, 28, 27, 6};
  CHECK(shape_after(Conv3D({.filters = 4, .kernel_size = {2, 6, 5}, .strides = 2}), volume) ==
        Shape{-1, 4, 12, 12, 4});
  CHECK(variables_of(Conv3D({.filters = 6, .kernel_size = {2, 3, 4}, .groups = 3}), volume) ==
        std::vector<std::string>{"conv3d/kernel (2, 3, 4, 2, 6)", "conv3d/bias (6)"});
  CHECK(shape_after(Conv3DTranspose({.filters = 4, .kernel_size = {3, 1, 2}, .strides = 2}),
                    volume) == Shape{-1, 19, 56, 54, 4});
  CHECK(variables_of(Conv3DTranspose({.filters = 4, .kernel_size = {3, 1, 2}}), volume) ==
        std::vector<std::string>{"conv3d_transpose/kernel (3, 1, 2, 4, 6)",
                                 "conv3d_transpose/bias (4)"});
  CHECK(shape_after(Conv1DTranspose(
                        {.filters = 4, .kernel_size = 3, .strides = 2, .padding = Padding::same}),
                    {9, 2}) == Shape{-1, 18, 4});
  CHECK(shape_after(MaxPooling3D(), volume) == Shape{-1, 4, 14, 13, 6});
  CHECK(shape_after(AveragePooling3D({.pool_size = {1, 2, 3}, .padding = Padding::same}), volume) ==
        Shape{-1, 9, 14, 9, 6});
  CHECK(shape_after(GlobalAveragePooling3D(), volume) == Shape{-1, 6});
  CHECK(shape_after(GlobalMaxPooling3D({.keepdims = true}), volume) == Shape{-1, 1, 1, 1, 6});
  CHECK(shape_after(UpSampling3D({.size = {1, 2, 3}}), volume) == Shape{-1, 9, 56, 81, 6});
  CHECK_THROWS_WITH(Conv3D({.filters = 1, .kernel_size = {1, 2, 0}}),
                    Catch::StartsWith("Conv3D: kernel_size: expected a positive integer"));
  CHECK_THROWS_WITH(shape_after(MaxPooling3D(), {7, 5, 3}), Catch::Contains("expected volumes"));
}

TEST_CASE("batch normalization has Keras's variables in its order, and moving ones not trained") {
  CHECK(variables_of(BatchNormalization(), {7, 5, 3}) ==
        std::vector<std::string>{"batch_normalization/gamma (3)", "batch_normalization/beta (3)",
                                 "batch_normalization/moving_mean (3) *",
                                 "batch_normalization/moving_variance (3) *"});
  CHECK(variables_of(BatchNormalization({.name = "n", .scale = false}), {3}) ==
        std::vector<std::string>{"n/beta (3)", "n/moving_mean (3) *", "n/moving_variance (3) *"});
  CHECK(
      variables_of(BatchNormalization({.name = "n", .center = false, .trainable = false}), {3}) ==
      std::vector<std::string>{"n/gamma (3) *", "n/moving_mean (3) *", "n/moving_variance (3) *"});
  const auto x = Input({3});
  const Graph graph = make_graph({x}, {BatchNormalization()(x)});
  CHECK(graph.variables[0].options.initializer == Ones());
  CHECK(graph.variables[1].options.initializer == Zeros());
  CHECK(graph.variables[2].options.initializer == Zeros());
  CHECK(graph.variables[3].options.initializer == Ones());
}

TEST_CASE("pooling, padding, enlarging and permuting give Keras's shapes") {
  const Shape image{7, 5, 3};
  CHECK(shape_after(MaxPooling2D(), image) == Shape{-1, 3, 2, 3});
  CHECK(shape_after(MaxPooling2D({.padding = Padding::same}), image) == Shape{-1, 4, 3, 3});
  CHECK(shape_after(AveragePooling2D({.pool_size = {3, 2}, .strides = 1}), image) ==
        Shape{-1, 5, 4, 3});
  CHECK(shape_after(MaxPooling1D(), {7, 3}) == Shape{-1, 3, 3});
  CHECK(shape_after(AveragePooling1D({.pool_size = 3}), {7, 3}) == Shape{-1, 2, 3});
  CHECK(shape_after(GlobalAveragePooling2D(), image) == Shape{-1, 3});
  CHECK(shape_after(GlobalMaxPooling2D({.keepdims = true}), image) == Shape{-1, 1, 1, 3});
  CHECK(shape_after(GlobalAveragePooling1D(), {7, 3}) == Shape{-1, 3});
  CHECK(shape_after(GlobalMaxPooling1D({.keepdims = true}), {7, 3}) == Shape{-1, 1, 3});
  CHECK(shape_after(ZeroPadding2D(), image) == Shape{-1, 9, 7, 3});
  CHECK(shape_after(ZeroPadding2D({.padding = {1, 2}}), image) == Shape{-1, 9, 9, 3});
  CHECK(shape_after(ZeroPadding2D({.padding = {{0, 1}, {2, 3}}}), image) == Shape{-1, 8, 10, 3});
  CHECK(shape_after(ZeroPadding1D(), {7, 3}) == Shape{-1, 9, 3});
  CHECK(shape_after(ZeroPadding1D({.padding = {0, 3}}), {7, 3}) == Shape{-1, 10, 3});
  CHECK(shape_after(ZeroPadding3D({.padding = {1, 2, {0, 1}}}), {2, 7, 5, 3}) ==
        Shape{-1, 4, 11, 6, 3});
  CHECK(shape_after(Cropping1D(), {7, 3}) == Shape{-1, 5, 3});
  CHECK(shape_after(Cropping2D(), image) == Shape{-1, 7, 5, 3});
  CHECK(shape_after(Cropping2D({.cropping = {{0, 1}, {2, 2}}}), image) == Shape{-1, 6, 1, 3});
  CHECK(shape_after(Cropping3D(), {3, 7, 5, 3}) == Shape{-1, 1, 5, 3, 3});
  CHECK(shape_after(UpSampling1D(), {7, 3}) == Shape{-1, 14, 3});
  CHECK(shape_after(RepeatVector({.n = 4}), {3}) == Shape{-1, 4, 3});
  CHECK(shape_after(UpSampling2D(), image) == Shape{-1, 14, 10, 3});
  CHECK(shape_after(UpSampling2D({.size = {1, 3}}), image) == Shape{-1, 7, 15, 3});
  CHECK(shape_after(Permute({.dims = {3, 1, 2}}), image) == Shape{-1, 3, 7, 5});
  CHECK(shape_after(ReLU(), image) == Shape{-1, 7, 5, 3});
  CHECK(shape_after(Softmax({.axis = 1}), image) == Shape{-1, 7, 5, 3});
}

TEST_CASE("layers without a name are called as Keras calls them") {
  const auto path_of = [](const SharedLayer& layer, const Shape& sample) {
    const auto x = Input(sample);
    return make_graph({x}, {layer(x)}).layers[0].path;
  };
  const Shape image{7, 5, 3};
  CHECK(path_of(ReLU(), image) == "re_lu");
  CHECK(path_of(MaxPooling2D(), image) == "max_pooling2d");
  CHECK(path_of(GlobalAveragePooling2D(), image) == "global_average_pooling2d");
  CHECK(path_of(ZeroPadding2D(), image) == "zero_padding2d");
  CHECK(path_of(UpSampling2D(), image) == "up_sampling2d");
  CHECK(path_of(Conv2DTranspose({.filters = 1, .kernel_size = 1}), image) == "conv2d_transpose");
}

TEST_CASE("wrong options are errors that name the layer and the option") {
  CHECK_THROWS_WITH(Conv2D({.kernel_size = 3}),
                    "Conv2D: filters: expected a positive integer of at most 16777216, found 0");
  CHECK_THROWS_WITH(Conv2D({.name = "c", .filters = 2}),
                    "c: kernel_size: expected a positive integer of at most 16777216, found 0");
  CHECK_THROWS_WITH(Conv2D({.filters = 2, .kernel_size = 3, .strides = {1, 0}}),
                    "Conv2D: strides: expected a positive integer of at most 16777216, found 0");
  CHECK_THROWS_WITH(
      Conv2D({.filters = 1, .kernel_size = 3, .dilation_rate = {1, std::int64_t{1} << 62}}),
      "Conv2D: dilation_rate: expected a positive integer of at most 16777216, found "
      "4611686018427387904");
  CHECK_THROWS_WITH(Conv2D({.filters = 1, .kernel_size = {1000, 1}, .dilation_rate = 1000000}),
                    "Conv2D: with `kernel_size` (1000, 1) and `dilation_rate` (1000000, 1000000) a "
                    "window spans (999000001, 1) elements; 16777216 is the most");
  CHECK_THROWS_WITH(Conv1D({.filters = 1, .kernel_size = 3, .dilation_rate = 8388608}),
                    "Conv1D: with `kernel_size` 3 and `dilation_rate` 8388608 a window spans "
                    "16777217 elements; 16777216 is the most");
  CHECK_NOTHROW(Conv1D({.filters = 1, .kernel_size = 2, .dilation_rate = 16777215}));
  CHECK_THROWS_WITH(
      UpSampling2D({.size = {2, 16777217}}),
      "UpSampling2D: size: expected a positive integer of at most 16777216, found 16777217");
  CHECK_THROWS_WITH(
      ZeroPadding2D({.padding = 16777217}),
      Catch::Contains("ZeroPadding2D: padding: ") && Catch::Contains("between 0 and 16777216"));
  CHECK_THROWS_WITH(Conv2D({.filters = 4, .kernel_size = 3, .groups = 3}),
                    "Conv2D: 4 `filters` do not divide into 3 `groups`");
  CHECK_THROWS_WITH(shape_after(Conv2D({.filters = 4, .kernel_size = 3, .groups = 2}), {7, 5, 3}),
                    "Conv2D: an input of shape (batch, 7, 5, 3) has 3 channels, which `groups` 2 "
                    "does not divide");
  CHECK_THROWS_WITH(shape_after(Conv2D({.name = "c", .filters = 4, .kernel_size = 3}), {7, 5}),
                    Catch::StartsWith("c: expected images of shape (batch, rows, columns, "
                                      "channels), found shape (batch, 7, 5)"));
  CHECK_THROWS_WITH(shape_after(Conv1D({.filters = 4, .kernel_size = 3}), {7, 5, 3}),
                    Catch::Contains("expected sequences of shape (batch, steps, channels)"));
  CHECK_THROWS_WITH(shape_after(Conv2D({.filters = 4, .kernel_size = 6}), {7, 5, 3}),
                    Catch::Contains("no place for a window of 6 elements in dimension 2"));
  CHECK_THROWS_WITH(
      MaxPooling2D({.pool_size = 0}),
      Catch::Contains("pool_size: expected a positive integer of at most 16777216, found 0"));
  CHECK_THROWS_WITH(
      AveragePooling1D({.strides = -1}),
      Catch::Contains("strides: expected a positive integer of at most 16777216, found -1"));
  CHECK_THROWS_WITH(BatchNormalization({.momentum = 1.5}),
                    "BatchNormalization: momentum: expected a number between 0 and 1, found 1.5");
  CHECK_THROWS_WITH(BatchNormalization({.epsilon = 0}),
                    Catch::Contains("epsilon: expected a positive number"));
  CHECK_THROWS_WITH(ZeroPadding2D({.padding = {{0, -1}, {0, 0}}}),
                    "ZeroPadding2D: padding: expected an integer between 0 and 16777216, found -1");
  CHECK_THROWS_WITH(shape_after(CenterCrop({.height = 8, .width = 2}), {7, 5, 3}),
                    Catch::Contains("expected images of at least 8 x 2"));
  CHECK_THROWS_WITH(shape_after(Cropping2D({.cropping = {{0, 0}, {3, 2}}}), {7, 5, 3}),
                    Catch::Contains("cannot cut 3 and 2 elements off dimension 2"));
  CHECK_THROWS_WITH(shape_after(ZeroPadding3D(), {7, 5, 3}), Catch::Contains("expected volumes"));
  CHECK_THROWS_WITH(shape_after(RepeatVector({.n = 2}), {7, 3}),
                    Catch::Contains("expected vectors"));
  CHECK_THROWS_WITH(Permute({.dims = {1, 3}}), Catch::StartsWith("Permute: `dims` is (1, 3)"));
  CHECK_THROWS_WITH(shape_after(Permute({.dims = {2, 1}}), {7, 5, 3}),
                    Catch::Contains("expected an input of 3 dimensions"));
  CHECK_THROWS_WITH(shape_after(Softmax({.axis = 0}), {3}), Catch::Contains("dimensions 1 to 1"));
}

}  // namespace meshwork::images_test
