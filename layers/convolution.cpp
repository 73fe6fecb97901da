#include "layers/convolution.h"

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/kernel_and_bias.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/convolution.h"

namespace meshwork {

template <std::size_t dimensions, class Visitor>
void describe(ConvOptions<dimensions>& options, Visitor& option) {
  option.about(fmt::format("convolution over {}", form_of(dimensions)));
  describe_name(options, option);
  describe_windows(options, option);
  option("groups", options.groups, length, "groups of channels, each convolved by itself");
  if constexpr (dimensions == 1) {
    option.choice("padding", options.padding,
                  by_name(std::array{Padding::valid, Padding::same, Padding::causal}),
                  padding_help);
  } else {
    option.choice("padding", options.padding, image_paddings, padding_help);
  }
  describe_kernel_and_bias(options, option);
}

namespace {

template <std::size_t dimensions>
SharedLayer convolution_of(ConvOptions<dimensions> options) {
  const std::string class_name = fmt::format("Conv{}D", dimensions);
  const std::string layer = called(options.name, class_name);
  check_options(layer, options);
  check_spans(layer, options);
  if (options.filters % options.groups != 0) {
    fail("{}: {} `filters` do not divide into {} `groups`", layer, options.filters, options.groups);
  }
  return layer_of(
      class_name, std::move(options),
      [](const ConvOptions<dimensions>& of, LayerBuilder& builder, TensorId x) {
        const std::vector<SlidingWindow> windows = sliding_windows(of);
        const Shape& shape = builder.shape(x);
        check_image(shape, windows.size());
        if (shape.back() % of.groups != 0) {
          fail("an input of shape {} has {} channels, which `groups` {} does not divide",
               to_string(shape), shape.back(), of.groups);
        }
        Shape kernel;
        for (const SlidingWindow& window : windows) {
          kernel.push_back(window.window);
        }
        kernel.push_back(shape.back() / of.groups);
        kernel.push_back(of.filters);
        return apply_kernel_and_bias(builder, of, x, std::move(kernel),
                                     std::make_unique<ConvolutionOperation>(windows, of.groups));
      });
}

}  // namespace

SharedLayer Conv1D(Conv1DOptions options) {
  return convolution_of(std::move(options));
}

SharedLayer Conv2D(Conv2DOptions options) {
  return convolution_of(std::move(options));
}

SharedLayer Conv3D(Conv3DOptions options) {
  return convolution_of(std::move(options));
}

void add_convolution(Catalog& catalog) {
  catalog.add<SharedLayer, Conv1DOptions>("Conv1D", {}, Conv1D);
  catalog.add<SharedLayer, Conv2DOptions>("Conv2D", {}, Conv2D);
  catalog.add<SharedLayer, Conv3DOptions>("Conv3D", {}, Conv3D);
}

}  // namespace meshwork
