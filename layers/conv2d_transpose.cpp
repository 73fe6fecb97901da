#include "layers/conv2d_transpose.h"

#include <memory>
#include <utility>
#include <vector>

#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/bias.h"
#include "runtime/graph/operations/transposed_convolution.h"

namespace meshwork {
namespace {

class Conv2DTransposeLayer final : public Layer {
 public:
  explicit Conv2DTransposeLayer(Conv2DTransposeOptions options)
      : Layer(options.name), options_(std::move(options)) {}

  std::string class_name() const override { return "Conv2DTranspose"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    const TensorId x = one_input(inputs);
    const Shape& shape = builder.shape(x);
    check_image(shape, 2);
    const RowsAndColumns& size = options_.kernel_size;
    const TensorId kernel = builder.variable(
        "kernel", {.shape = {size.rows, size.columns, options_.filters, shape.back()},
                   .initializer = options_.kernel_initializer,
                   .regularizer = options_.kernel_regularizer});
    std::vector<SlidingWindow> windows{
        {size.rows, options_.strides.rows, options_.dilation_rate.rows, options_.padding},
        {size.columns, options_.strides.columns, options_.dilation_rate.columns, options_.padding}};
    TensorId y = builder.apply(std::make_unique<TransposedConvolutionOperation>(std::move(windows)),
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
  Conv2DTransposeOptions options_;
};

}  // namespace

SharedLayer Conv2DTranspose(Conv2DTransposeOptions options) {
  const std::string layer = called(options.name, "Conv2DTranspose");
  check_positive(layer, "filters", options.filters);
  check_positive(layer, "kernel_size", options.kernel_size);
  check_positive(layer, "strides", options.strides);
  check_positive(layer, "dilation_rate", options.dilation_rate);
  return SharedLayer(std::make_shared<Conv2DTransposeLayer>(std::move(options)));
}

SharedLayer conv2d_transpose_from_config(const ConfigNode& node, const LayerRegistry&) {
  Conv2DTransposeOptions options;
  ConfigReader reader = layer_reader(node, options.name);
  reader.required("filters", options.filters, positive);
  reader.required("kernel_size", options.kernel_size);
  reader.optional("strides", options.strides);
  reader.optional("padding", options.padding);
  reader.optional("dilation_rate", options.dilation_rate);
  reader.optional("activation", options.activation);
  reader.optional("use_bias", options.use_bias);
  reader.optional("kernel_initializer", options.kernel_initializer);
  reader.optional("bias_initializer", options.bias_initializer);
  reader.optional("kernel_regularizer", options.kernel_regularizer);
  reader.optional("bias_regularizer", options.bias_regularizer);
  reader.finish();
  return Conv2DTranspose(std::move(options));
}

}  // namespace meshwork
