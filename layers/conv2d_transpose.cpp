#include "layers/conv2d_transpose.h"

#include <memory>
#include <utility>

#include "layers/kernel_and_bias.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/transposed_convolution.h"

namespace meshwork {

template <class Visitor>
void describe(Conv2DTransposeOptions& options, Visitor& option) {
  option.about("transposed convolution over images: enlarges them by its strides");
  describe_name(options, option);
  describe_windows(options, option);
  option.choice("padding", options.padding, image_paddings, padding_help);
  describe_kernel_and_bias(options, option);
}

SharedLayer Conv2DTranspose(Conv2DTransposeOptions options) {
  check_spans(called(options.name, "Conv2DTranspose"), options);
  return layer_of("Conv2DTranspose", std::move(options),
                  [](const Conv2DTransposeOptions& of, LayerBuilder& builder, TensorId x) {
                    const Shape& shape = builder.shape(x);
                    check_image(shape, 2);
                    return apply_kernel_and_bias(
                        builder, of, x,
                        {of.kernel_size.rows, of.kernel_size.columns, of.filters, shape.back()},
                        std::make_unique<TransposedConvolutionOperation>(sliding_windows(of)));
                  });
}

void add_conv2d_transpose(Catalog& catalog) {
  catalog.add<SharedLayer, Conv2DTransposeOptions>("Conv2DTranspose", {}, Conv2DTranspose);
}

}  // namespace meshwork
