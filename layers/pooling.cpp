#include "layers/pooling.h"

#include <memory>
#include <utility>
#include <vector>

#include "layers/layer_of.h"
#include "runtime/graph/operations/pooling.h"

namespace meshwork {

template <class Options, class Visitor>
requires std::same_as<Options, Pooling2DOptions> || std::same_as<Options, Pooling1DOptions>
void describe(Options& options, Visitor& option) {
  option.about("the maximum or the mean of each channel over windows");
  describe_name(options, option);
  option("pool_size", options.pool_size, length, "size of a window");
  option("strides", options.strides, length, "step between windows; none: pool_size");
  option.choice("padding", options.padding, image_paddings, padding_help);
}

namespace {

std::vector<SlidingWindow> windows_of(const Pooling2DOptions& of) {
  const RowsAndColumns strides = of.strides.value_or(of.pool_size);
  return {{of.pool_size.rows, strides.rows, 1, of.padding},
          {of.pool_size.columns, strides.columns, 1, of.padding}};
}

std::vector<SlidingWindow> windows_of(const Pooling1DOptions& of) {
  return {{of.pool_size, of.strides.value_or(of.pool_size), 1, of.padding}};
}

template <class Options>
SharedLayer pooling_of(const std::string& class_name, Pooling pooling, Options options) {
  return layer_of(class_name, std::move(options),
                  [pooling](const Options& of, LayerBuilder& builder, TensorId x) {
                    return builder.apply(
                        std::make_unique<PoolingOperation>(pooling, windows_of(of)), {x});
                  });
}

}  // namespace

SharedLayer MaxPooling2D(Pooling2DOptions options) {
  return pooling_of("MaxPooling2D", Pooling::maximum, std::move(options));
}

SharedLayer AveragePooling2D(Pooling2DOptions options) {
  return pooling_of("AveragePooling2D", Pooling::average, std::move(options));
}

SharedLayer MaxPooling1D(Pooling1DOptions options) {
  return pooling_of("MaxPooling1D", Pooling::maximum, std::move(options));
}

SharedLayer AveragePooling1D(Pooling1DOptions options) {
  return pooling_of("AveragePooling1D", Pooling::average, std::move(options));
}

void add_pooling(Catalog& catalog) {
  catalog.add<SharedLayer, Pooling2DOptions>("MaxPooling2D", {}, MaxPooling2D);
  catalog.add<SharedLayer, Pooling2DOptions>("AveragePooling2D", {}, AveragePooling2D);
  catalog.add<SharedLayer, Pooling1DOptions>("MaxPooling1D", {}, MaxPooling1D);
  catalog.add<SharedLayer, Pooling1DOptions>("AveragePooling1D", {}, AveragePooling1D);
}

}  // namespace meshwork
