#include "layers/conv2d_transpose.h"

#include <memory>
#include <utility>

#include "layers/kernel_and_bias.h"
#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
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
    return apply_kernel_and_bias(
        builder, options_, x, {size.rows, size.columns, options_.filters, shape.back()},
        std::make_unique<TransposedConvolutionOperation>(sliding_windows(options_)));
  }

 private:
  Conv2DTransposeOptions options_;
};

}  // namespace

template <class Visitor>
void describe(Conv2DTransposeOptions& options, Visitor& option) {
  option.about("transposed convolution over images: enlarges them by its strides");
  describe_name(options, option);
  describe_windows(options, option);
  option.choice("padding", options.padding, image_paddings, padding_help);
  describe_kernel_and_bias(options, option);
}

SharedLayer Conv2DTranspose(Conv2DTransposeOptions options) {
  const std::string layer = called(options.name, "Conv2DTranspose");
  check_options(layer, options);
  check_spans(layer, options.kernel_size, options.dilation_rate);
  return SharedLayer(std::make_shared<Conv2DTransposeLayer>(std::move(options)));
}

void add_conv2d_transpose(Catalog& catalog) {
  catalog.add<SharedLayer, Conv2DTransposeOptions>("Conv2DTranspose", {}, Conv2DTranspose);
}

}  // namespace meshwork
