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

SharedLayer pooling_of(const std::string& class_name, Pooling pooling, Pooling2DOptions options) {
  const std::string layer = called(options.name, class_name);
  const RowsAndColumns& size = options.pool_size;
  const RowsAndColumns strides = options.strides.value_or(size);
  check_length(layer, "pool_size", size);
  check_length(layer, "strides", strides);
  check_not_causal(layer, options.padding);
  return SharedLayer(std::make_shared<PoolingLayer>(
      class_name, std::move(options.name), pooling,
      std::vector<SlidingWindow>{{size.rows, strides.rows, 1, options.padding},
                                 {size.columns, strides.columns, 1, options.padding}}));
}

SharedLayer pooling_of(const std::string& class_name, Pooling pooling, Pooling1DOptions options) {
  const std::string layer = called(options.name, class_name);
  const std::int64_t stride = options.strides.value_or(options.pool_size);
  check_length(layer, "pool_size", options.pool_size);
  check_length(layer, "strides", stride);
  check_not_causal(layer, options.padding);
  return SharedLayer(std::make_shared<PoolingLayer>(
      class_name, std::move(options.name), pooling,
      std::vector<SlidingWindow>{{options.pool_size, stride, 1, options.padding}}));
}

template <class Options>
Options options_from(const ConfigNode& node) {
  Options options;
  ConfigReader reader = layer_reader(node, options.name);
  reader.optional("pool_size", options.pool_size, positive);
  reader.optional("strides", options.strides, positive);
  reader.optional("padding", options.padding);
  reader.finish();
  return options;
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

SharedLayer max_pooling2d_from_config(const ConfigNode& node, const LayerRegistry&) {
  return MaxPooling2D(options_from<Pooling2DOptions>(node));
}

SharedLayer average_pooling2d_from_config(const ConfigNode& node, const LayerRegistry&) {
  return AveragePooling2D(options_from<Pooling2DOptions>(node));
}

SharedLayer max_pooling1d_from_config(const ConfigNode& node, const LayerRegistry&) {
  return MaxPooling1D(options_from<Pooling1DOptions>(node));
}

SharedLayer average_pooling1d_from_config(const ConfigNode& node, const LayerRegistry&) {
  return AveragePooling1D(options_from<Pooling1DOptions>(node));
}

}  // namespace meshwork
