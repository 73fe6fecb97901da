#include "layers/convolution.h"

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/kernel_and_bias.h"
#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
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
    Shape kernel;
    for (const SlidingWindow& window : windows_) {
      kernel.push_back(window.window);
    }
    kernel.push_back(shape.back() / options_.groups);
    kernel.push_back(options_.filters);
    return apply_kernel_and_bias(builder, options_, x, std::move(kernel),
                                 std::make_unique<ConvolutionOperation>(windows_, options_.groups));
  }

 private:
  std::string class_name_;
  std::vector<SlidingWindow> windows_;
  Conv2DOptions options_;
};

}  // namespace

template <class Visitor>
void describe(Conv2DOptions& options, Visitor& option) {
  option.about("convolution over images (batch, rows, columns, channels)");
  describe_name(options, option);
  describe_windows(options, option);
  option("groups", options.groups, length, "groups of channels, each convolved by itself");
  option.choice("padding", options.padding, image_paddings, padding_help);
  describe_kernel_and_bias(options, option);
}

template <class Visitor>
void describe(Conv1DOptions& options, Visitor& option) {
  option.about("convolution over sequences (batch, steps, channels)");
  describe_name(options, option);
  describe_windows(options, option);
  option("groups", options.groups, length, "groups of channels, each convolved by itself");
  option.choice("padding", options.padding,
                by_name(std::array{Padding::valid, Padding::same, Padding::causal}), padding_help);
  describe_kernel_and_bias(options, option);
}

namespace {

void check_windows(const std::string& layer, const auto& options) {
  check_options(layer, options);
  check_spans(layer, options.kernel_size, options.dilation_rate);
  if (options.filters % options.groups != 0) {
    fail("{}: {} `filters` do not divide into {} `groups`", layer, options.filters, options.groups);
  }
}

}  // namespace

SharedLayer Conv2D(Conv2DOptions options) {
  const std::string layer = called(options.name, "Conv2D");
  check_windows(layer, options);
  std::vector<SlidingWindow> windows = sliding_windows(options);
  return SharedLayer(
      std::make_shared<ConvolutionLayer>("Conv2D", std::move(windows), std::move(options)));
}

SharedLayer Conv1D(Conv1DOptions options) {
  const std::string layer = called(options.name, "Conv1D");
  check_windows(layer, options);
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

void add_convolution(Catalog& catalog) {
  catalog.add<SharedLayer, Conv2DOptions>("Conv2D", {}, Conv2D);
  catalog.add<SharedLayer, Conv1DOptions>("Conv1D", {}, Conv1D);
}

}  // namespace meshwork
