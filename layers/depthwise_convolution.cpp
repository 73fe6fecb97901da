#include "layers/depthwise_convolution.h"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "layers/kernel_and_bias.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/convolution.h"
#include "runtime/graph/operations/reshape.h"

namespace meshwork {
namespace {

// A convolution in groups of one channel. Its kernel has the channels and their outputs as one
// dimension, which lie in memory as Keras's two do.
template <class Options>
TensorId depthwise(LayerBuilder& builder, const Options& of, TensorId x, const char* kernel_name) {
  const auto sizes = by_dimension(of.kernel_size);
  check_image(builder.shape(x), sizes.size());
  const std::int64_t channels = builder.shape(x).back();
  Shape apart(sizes.begin(), sizes.end());
  Shape grouped(sizes.begin() + 1, sizes.end());  // without the first dimension
  apart.insert(apart.end(), {channels, of.depth_multiplier});
  grouped.insert(grouped.end(), {1, channels * of.depth_multiplier});
  const TensorId kernel = builder.variable(kernel_name, {.shape = std::move(apart),
                                                         .initializer = of.depthwise_initializer,
                                                         .regularizer = of.depthwise_regularizer,
                                                         .constraint = of.depthwise_constraint});
  const TensorId as_groups =
      builder.apply(std::make_unique<ReshapeOperation>(std::move(grouped)), {kernel});
  return builder.apply(std::make_unique<ConvolutionOperation>(sliding_windows(of), channels),
                       {x, as_groups});
}

template <class Options>
void check_depthwise(const std::string& class_name, const Options& options) {
  const std::string layer = called(options.name, class_name);
  check_options(layer, options);
  check_spans(layer, options);
}

template <std::size_t dimensions>
SharedLayer depthwise_of(DepthwiseConvOptions<dimensions> options) {
  const std::string class_name = fmt::format("DepthwiseConv{}D", dimensions);
  check_depthwise(class_name, options);
  return layer_of(
      class_name, std::move(options),
      [](const DepthwiseConvOptions<dimensions>& of, LayerBuilder& builder, TensorId x) {
        return apply_bias_and_activation(builder, of, depthwise(builder, of, x, "kernel"));
      });
}

template <std::size_t dimensions>
SharedLayer separable_of(SeparableConvOptions<dimensions> options) {
  const std::string class_name = fmt::format("SeparableConv{}D", dimensions);
  check_depthwise(class_name, options);
  return layer_of(
      class_name, std::move(options),
      [](const SeparableConvOptions<dimensions>& of, LayerBuilder& builder, TensorId x) {
        const TensorId apart = depthwise(builder, of, x, "depthwise_kernel");
        Shape mixing(dimensions, 1);
        mixing.insert(mixing.end(), {builder.shape(apart).back(), of.filters});
        const TensorId pointwise =
            builder.variable("pointwise_kernel", {.shape = std::move(mixing),
                                                  .initializer = of.pointwise_initializer,
                                                  .regularizer = of.pointwise_regularizer,
                                                  .constraint = of.pointwise_constraint});
        const TensorId mixed = builder.apply(
            std::make_unique<ConvolutionOperation>(std::vector<SlidingWindow>(dimensions)),
            {apart, pointwise});
        return apply_bias_and_activation(builder, of, mixed);
      });
}

}  // namespace

template <std::size_t dimensions, class Visitor>
void describe(DepthwiseConvOptions<dimensions>& options, Visitor& option) {
  option.about("a convolution of each channel by itself");
  describe_name(options, option);
  describe_sliding(options, option);
  option("depth_multiplier", options.depth_multiplier, length, "outputs of a channel by itself");
  option.choice("padding", options.padding, image_paddings, padding_help);
  option("activation", options.activation, "function of each output; ~: none");
  option("use_bias", options.use_bias, "add a bias");
  describe_variable(option, "depthwise", "the kernel", options.depthwise_initializer,
                    options.depthwise_regularizer, options.depthwise_constraint);
  describe_variable(option, "bias", "the bias", options.bias_initializer, options.bias_regularizer,
                    options.bias_constraint);
  option("trainable", options.trainable, "train kernel and bias; false: keep them fixed");
}

template <std::size_t dimensions, class Visitor>
void describe(SeparableConvOptions<dimensions>& options, Visitor& option) {
  option.about("a convolution of each channel by itself, then one of single places");
  describe_name(options, option);
  describe_windows(options, option);
  option("depth_multiplier", options.depth_multiplier, length, "outputs of a channel by itself");
  option.choice("padding", options.padding, image_paddings, padding_help);
  option("activation", options.activation, "function of each output; ~: none");
  option("use_bias", options.use_bias, "add a bias");
  describe_variable(option, "depthwise", "the depthwise kernel", options.depthwise_initializer,
                    options.depthwise_regularizer, options.depthwise_constraint);
  describe_variable(option, "pointwise", "the pointwise kernel", options.pointwise_initializer,
                    options.pointwise_regularizer, options.pointwise_constraint);
  describe_variable(option, "bias", "the bias", options.bias_initializer, options.bias_regularizer,
                    options.bias_constraint);
  option("trainable", options.trainable, "train kernels and bias; false: keep them fixed");
}

SharedLayer DepthwiseConv1D(DepthwiseConvOptions<1> options) {
  return depthwise_of(std::move(options));
}

SharedLayer DepthwiseConv2D(DepthwiseConvOptions<2> options) {
  return depthwise_of(std::move(options));
}

SharedLayer SeparableConv1D(SeparableConvOptions<1> options) {
  return separable_of(std::move(options));
}

SharedLayer SeparableConv2D(SeparableConvOptions<2> options) {
  return separable_of(std::move(options));
}

void add_depthwise_convolution(Catalog& catalog) {
  catalog.add<SharedLayer, DepthwiseConvOptions<1>>("DepthwiseConv1D", {}, DepthwiseConv1D);
  catalog.add<SharedLayer, DepthwiseConvOptions<2>>("DepthwiseConv2D", {}, DepthwiseConv2D);
  catalog.add<SharedLayer, SeparableConvOptions<1>>("SeparableConv1D", {}, SeparableConv1D);
  catalog.add<SharedLayer, SeparableConvOptions<2>>("SeparableConv2D", {}, SeparableConv2D);
}

}  // namespace meshwork
