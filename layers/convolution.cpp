#include "layers/convolution.h"

#include <array>
#include <concepts>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/kernel_and_bias.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/convolution.h"

namespace meshwork {

template <class Options, class Visitor>
requires std::same_as<Options, Conv2DOptions> || std::same_as<Options, Conv1DOptions>
void describe(Options& options, Visitor& option) {
  option.about(std::same_as<Options, Conv2DOptions>
                   ? "convolution over images (batch, rows, columns, channels)"
                   : "convolution over sequences (batch, steps, channels)");
  describe_name(options, option);
  describe_windows(options, option);
  option("groups", options.groups, length, "groups of channels, each convolved by itself");
  if constexpr (std::same_as<Options, Conv2DOptions>) {
    option.choice("padding", options.padding, image_paddings, padding_help);
  } else {
    option.choice("padding", options.padding,
                  by_name(std::array{Padding::valid, Padding::same, Padding::causal}),
                  padding_help);
  }
  describe_kernel_and_bias(options, option);
}

namespace {

template <class Options>
SharedLayer convolution_of(const std::string& class_name, Options options) {
  const std::string layer = called(options.name, class_name);
  check_options(layer, options);
  check_spans(layer, options);
  if (options.filters % options.groups != 0) {
    fail("{}: {} `filters` do not divide into {} `groups`", layer, options.filters, options.groups);
  }
  return layer_of(
      class_name, std::move(options), [](const Options& of, LayerBuilder& builder, TensorId x) {
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

SharedLayer Conv2D(Conv2DOptions options) {
  return convolution_of("Conv2D", std::move(options));
}

SharedLayer Conv1D(Conv1DOptions options) {
  return convolution_of("Conv1D", std::move(options));
}

void add_convolution(Catalog& catalog) {
  catalog.add<SharedLayer, Conv2DOptions>("Conv2D", {}, Conv2D);
  catalog.add<SharedLayer, Conv1DOptions>("Conv1D", {}, Conv1D);
}

}  // namespace meshwork
