#include "layers/conv_transpose.h"

#include <memory>
#include <utility>
#include <vector>

#include "layers/kernel_and_bias.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/transposed_convolution.h"

namespace meshwork {

template <std::size_t dimensions, class Visitor>
void describe(ConvTransposeOptions<dimensions>& options, Visitor& option) {
  option.about(fmt::format("transposed convolution over {}: enlarges them by its strides",
                           form_of(dimensions)));
  describe_name(options, option);
  describe_windows(options, option);
  option.choice("padding", options.padding, image_paddings, padding_help);
  describe_kernel_and_bias(options, option);
}

namespace {

template <std::size_t dimensions>
SharedLayer transpose_of(ConvTransposeOptions<dimensions> options) {
  const std::string class_name = fmt::format("Conv{}DTranspose", dimensions);
  check_spans(called(options.name, class_name), options);
  return layer_of(
      class_name, std::move(options),
      [](const ConvTransposeOptions<dimensions>& of, LayerBuilder& builder, TensorId x) {
        const Shape& shape = builder.shape(x);
        check_image(shape, dimensions);
        const auto sizes = by_dimension(of.kernel_size);
        Shape kernel(sizes.begin(), sizes.end());
        kernel.push_back(of.filters);
        kernel.push_back(shape.back());
        return apply_kernel_and_bias(
            builder, of, x, std::move(kernel),
            std::make_unique<TransposedConvolutionOperation>(sliding_windows(of)));
      });
}

}  // namespace

SharedLayer Conv1DTranspose(Conv1DTransposeOptions options) {
  return transpose_of(std::move(options));
}

SharedLayer Conv2DTranspose(Conv2DTransposeOptions options) {
  return transpose_of(std::move(options));
}

SharedLayer Conv3DTranspose(Conv3DTransposeOptions options) {
  return transpose_of(std::move(options));
}

void add_conv_transpose(Catalog& catalog) {
  catalog.add<SharedLayer, Conv1DTransposeOptions>("Conv1DTranspose", {}, Conv1DTranspose);
  catalog.add<SharedLayer, Conv2DTransposeOptions>("Conv2DTranspose", {}, Conv2DTranspose);
  catalog.add<SharedLayer, Conv3DTransposeOptions>("Conv3DTranspose", {}, Conv3DTranspose);
}

}  // namespace meshwork
