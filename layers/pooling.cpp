#include "layers/pooling.h"

#include <memory>
#include <utility>
#include <vector>

#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/pooling.h"

namespace meshwork {
namespace {

class PoolingLayer final : public Layer {
 public:
  PoolingLayer(std::string class_name, std::string name, Pooling pooling,
               std::vector<SlidingWindow> windows)
      : Layer(std::move(name)),
        class_name_(std::move(class_name)),
        pooling_(pooling),
        windows_(std::move(windows)) {}

  std::string class_name() const override { return class_name_; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    return builder.apply(std::make_unique<PoolingOperation>(pooling_, windows_),
                         {one_input(inputs)});
  }

 private:
  std::string class_name_;
  Pooling pooling_;
  std::vector<SlidingWindow> windows_;
};

}  // namespace

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

SharedLayer pooling_of(const std::string& class_name, Pooling pooling, Pooling2DOptions options) {
  check_options(called(options.name, class_name), options);
  const RowsAndColumns& size = options.pool_size;
  const RowsAndColumns strides = options.strides.value_or(size);
  return SharedLayer(std::make_shared<PoolingLayer>(
      class_name, std::move(options.name), pooling,
      std::vector<SlidingWindow>{{size.rows, strides.rows, 1, options.padding},
                                 {size.columns, strides.columns, 1, options.padding}}));
}

SharedLayer pooling_of(const std::string& class_name, Pooling pooling, Pooling1DOptions options) {
  check_options(called(options.name, class_name), options);
  const std::int64_t stride = options.strides.value_or(options.pool_size);
  return SharedLayer(std::make_shared<PoolingLayer>(
      class_name, std::move(options.name), pooling,
      std::vector<SlidingWindow>{{options.pool_size, stride, 1, options.padding}}));
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
