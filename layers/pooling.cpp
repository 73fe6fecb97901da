#include "layers/pooling.h"

#include <memory>
#include <utility>
#include <vector>

#include "layers/layer_of.h"
#include "runtime/graph/operations/pooling.h"

namespace meshwork {

template <std::size_t dimensions, class Visitor>
void describe(PoolingOptions<dimensions>& options, Visitor& option) {
  describe_name(options, option);
  option("pool_size", options.pool_size, length, "size of a window");
  option("strides", options.strides, length, "step between windows; none: pool_size");
  option.choice("padding", options.padding, image_paddings, padding_help);
}

template <std::size_t dimensions, class Visitor>
void describe(AdaptivePoolingOptions<dimensions>& options, Visitor& option) {
  describe_name(options, option);
  option.required("output_size", options.output_size, length, "number of windows");
}

namespace {

const char* name_of(Pooling pooling) {
  return pooling == Pooling::maximum ? "Max" : "Average";
}

template <std::size_t dimensions>
SharedLayer adaptive_pooling_of(Pooling pooling, AdaptivePoolingOptions<dimensions> options) {
  return layer_of(
      fmt::format("Adaptive{}Pooling{}D", name_of(pooling), dimensions), std::move(options),
      [pooling](const AdaptivePoolingOptions<dimensions>& of, LayerBuilder& builder, TensorId x) {
        std::vector<SlidingWindow> windows;
        for (const std::int64_t bins : by_dimension(of.output_size)) {
          windows.push_back({.bins = bins});
        }
        return builder.apply(std::make_unique<PoolingOperation>(pooling, std::move(windows)), {x});
      });
}

template <std::size_t dimensions>
SharedLayer pooling_of(Pooling pooling, PoolingOptions<dimensions> options) {
  return layer_of(
      fmt::format("{}Pooling{}D", name_of(pooling), dimensions), std::move(options),
      [pooling](const PoolingOptions<dimensions>& of, LayerBuilder& builder, TensorId x) {
        const auto sizes = by_dimension(of.pool_size);
        const auto strides = by_dimension(of.strides.value_or(of.pool_size));
        std::vector<SlidingWindow> windows;
        for (std::size_t d = 0; d < dimensions; ++d) {
          windows.push_back({sizes[d], strides[d], 1, of.padding});
        }
        return builder.apply(std::make_unique<PoolingOperation>(pooling, std::move(windows)), {x});
      });
}

}  // namespace

SharedLayer MaxPooling1D(Pooling1DOptions options) {
  return pooling_of(Pooling::maximum, std::move(options));
}

SharedLayer MaxPooling2D(Pooling2DOptions options) {
  return pooling_of(Pooling::maximum, std::move(options));
}

SharedLayer MaxPooling3D(Pooling3DOptions options) {
  return pooling_of(Pooling::maximum, std::move(options));
}

SharedLayer AveragePooling1D(Pooling1DOptions options) {
  return pooling_of(Pooling::average, std::move(options));
}

SharedLayer AveragePooling2D(Pooling2DOptions options) {
  return pooling_of(Pooling::average, std::move(options));
}

SharedLayer AveragePooling3D(Pooling3DOptions options) {
  return pooling_of(Pooling::average, std::move(options));
}

SharedLayer AdaptiveMaxPooling1D(AdaptivePooling1DOptions options) {
  return adaptive_pooling_of(Pooling::maximum, std::move(options));
}

SharedLayer AdaptiveAveragePooling1D(AdaptivePooling1DOptions options) {
  return adaptive_pooling_of(Pooling::average, std::move(options));
}

SharedLayer AdaptiveMaxPooling2D(AdaptivePooling2DOptions options) {
  return adaptive_pooling_of(Pooling::maximum, std::move(options));
}

SharedLayer AdaptiveAveragePooling2D(AdaptivePooling2DOptions options) {
  return adaptive_pooling_of(Pooling::average, std::move(options));
}

SharedLayer AdaptiveMaxPooling3D(AdaptivePooling3DOptions options) {
  return adaptive_pooling_of(Pooling::maximum, std::move(options));
}

SharedLayer AdaptiveAveragePooling3D(AdaptivePooling3DOptions options) {
  return adaptive_pooling_of(Pooling::average, std::move(options));
}

void add_pooling(Catalog& catalog) {
  const auto add = [&]<class Options>(const char* name, SharedLayer (*make)(Options),
                                      const char* about) {
    catalog.add<SharedLayer, Options>(name, {}, make, {}, about);
  };
  const char* const maximum = "the maximum of each channel over windows";
  add("MaxPooling1D", MaxPooling1D, maximum);
  add("MaxPooling2D", MaxPooling2D, maximum);
  add("MaxPooling3D", MaxPooling3D, maximum);
  const char* const mean = "the mean of each channel over windows";
  add("AveragePooling1D", AveragePooling1D, mean);
  add("AveragePooling2D", AveragePooling2D, mean);
  add("AveragePooling3D", AveragePooling3D, mean);
  const char* const adaptive_maximum = "the maximum of each channel over a given number of windows";
  add("AdaptiveMaxPooling1D", AdaptiveMaxPooling1D, adaptive_maximum);
  add("AdaptiveMaxPooling2D", AdaptiveMaxPooling2D, adaptive_maximum);
  add("AdaptiveMaxPooling3D", AdaptiveMaxPooling3D, adaptive_maximum);
  const char* const adaptive_mean = "the mean of each channel over a given number of windows";
  add("AdaptiveAveragePooling1D", AdaptiveAveragePooling1D, adaptive_mean);
  add("AdaptiveAveragePooling2D", AdaptiveAveragePooling2D, adaptive_mean);
  add("AdaptiveAveragePooling3D", AdaptiveAveragePooling3D, adaptive_mean);
}

}  // namespace meshwork
