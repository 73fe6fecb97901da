#include "layers/convolution.h"

#include <memory>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/bias.h"
#include "runtime/graph/operations/convolution.h"

namespace meshwork {
namespace {

// Of both, with windows by spatial dimension.
class ConvolutionLayer final : public Layer {
 public:
  ConvolutionLayer(std::string class_name, std::vector<SlidingWindow> windows,
                   Conv2DOptions options)
      : Layer(options.name),
        class_name_(std::move(class_name)),
        windows_(std::move(windows)),
        options_(std::move(options)) {}

  std::string class_name() const override { return class_name_; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    const TensorId x = one_input(inputs);
    const Shape& shape = builder.shape(x);
    check_image(shape, windows_.size());
    if (shape.back() % options_.groups != 0) {
      fail("an input of shape {} has {} channels, which `groups` {} does not divide",
           to_string(shape), shape.back(), options_.groups);
    }
    Shape kernel_shape;
    for (const SlidingWindow& window : windows_) {
      kernel_shape.push_back(window.window);
    }
    kernel_shape.push_back(shape.back() / options_.groups);
    kernel_shape.push_back(options_.filters);
    const TensorId kernel =
        builder.variable("kernel", {.shape = kernel_shape,
                                    .initializer = options_.kernel_initializer,
                                    .regularizer = options_.kernel_regularizer});
    TensorId y = builder.apply(std::make_unique<ConvolutionOperation>(windows_, options_.groups),
                               {x, kernel});
    if (options_.use_bias) {
      const TensorId bias = builder.variable("bias", {.shape = {options_.filters},
                                                      .initializer = options_.bias_initializer,
                                                      .regularizer = options_.bias_regularizer});
      y = builder.apply(std::make_unique<BiasOperation>(), {y, bias});
    }
    if (options_.activation != Activation::linear) {
      y = builder.apply(make_activation(options_.activation), {y});
    }
    return y;
  }

 private:
  std::string class_name_;
  std::vector<SlidingWindow> windows_;
  Conv2DOptions options_;
};

void check_filters(const std::string& layer, std::int64_t filters, std::int64_t groups) {
  check_positive(layer, "filters", filters);
  check_positive(layer, "groups", groups);
  if (filters % groups != 0) {
    fail("{}: {} `filters` do not divide into {} `groups`", layer, filters, groups);
  }
}

template <class Options>
void read_options(ConfigReader& reader, Options& options) {
  reader.required("filters", options.filters, positive);
  reader.required("kernel_size", options.kernel_size, positive);
  reader.optional("strides", options.strides, positive);
  reader.optional("padding", options.padding);
  reader.optional("dilation_rate", options.dilation_rate, positive);
  reader.optional("groups", options.groups, positive);
  reader.optional("activation", options.activation);
  reader.optional("use_bias", options.use_bias);
  reader.optional("kernel_initializer", options.kernel_initializer);
  reader.optional("bias_initializer", options.bias_initializer);
  reader.optional("kernel_regularizer", options.kernel_regularizer);
  reader.optional("bias_regularizer", options.bias_regularizer);
}

}  // namespace

SharedLayer Conv2D(Conv2DOptions options) {
  const std::string layer = called(options.name, "Conv2D");
  check_filters(layer, options.filters, options.groups);
  check_positive(layer, "kernel_size", options.kernel_size);
  check_positive(layer, "strides", options.strides);
  check_positive(layer, "dilation_rate", options.dilation_rate);
  std::vector<SlidingWindow> windows{
      {options.kernel_size.rows, options.strides.rows, options.dilation_rate.rows, options.padding},
      {options.kernel_size.columns, options.strides.columns, options.dilation_rate.columns,
       options.padding}};
  return SharedLayer(
      std::make_shared<ConvolutionLayer>("Conv2D", std::move(windows), std::move(options)));
}

SharedLayer Conv1D(Conv1DOptions options) {
  const std::string layer = called(options.name, "Conv1D");
  check_filters(layer, options.filters, options.groups);
  check_positive(layer, "kernel_size", options.kernel_size);
  check_positive(layer, "strides", options.strides);
  check_positive(layer, "dilation_rate", options.dilation_rate);
  std::vector<SlidingWindow> windows{
      {options.kernel_size, options.strides, options.dilation_rate, options.padding}};
  Conv2DOptions shared{.name = std::move(options.name),
                       .filters = options.filters,
                       .groups = options.groups,
                       .activation = options.activation,
                       .use_bias = options.use_bias,
                       .kernel_initializer = options.kernel_initializer,
                       .bias_initializer = options.bias_initializer,
                       .kernel_regularizer = options.kernel_regularizer,
                       .bias_regularizer = options.bias_regularizer};
  return SharedLayer(
      std::make_shared<ConvolutionLayer>("Conv1D", std::move(windows), std::move(shared)));
}

SharedLayer conv2d_from_config(const ConfigNode& node, const LayerRegistry&) {
  Conv2DOptions options;
  ConfigReader reader = layer_reader(node, options.name);
  read_options(reader, options);
  reader.finish();
  return Conv2D(std::move(options));
}

SharedLayer conv1d_from_config(const ConfigNode& node, const LayerRegistry&) {
  Conv1DOptions options;
  ConfigReader reader = layer_reader(node, options.name);
  read_options(reader, options);
  reader.finish();
  return Conv1D(std::move(options));
}

}  // namespace meshwork
