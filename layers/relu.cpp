#include "layers/relu.h"

#include <memory>
#include <string_view>
#include <utility>

#include "collectives/error.h"
#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/rectifier.h"

namespace meshwork {
namespace {

class ReLULayer final : public Layer {
 public:
  explicit ReLULayer(ReLUOptions options)
      : Layer(std::move(options.name)),
        plain_(!options.max_value && options.negative_slope == 0 && options.threshold == 0) {
    rectifier_.slope = options.negative_slope;
    rectifier_.threshold = options.threshold;
    rectifier_.limit = options.max_value.value_or(rectifier_.limit);
  }
  std::string class_name() const override { return "ReLU"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    return builder.apply(plain_ ? make_activation(Activation::relu)
                                : std::make_unique<RectifierOperation>(rectifier_),
                         {one_input(inputs)});
  }

 private:
  bool plain_;
  Rectifier rectifier_;
};

void check_not_negative(const std::string& layer, std::string_view option, float value) {
  if (!(value >= 0)) {
    fail("{}: `{}` is {}; it has to be at least 0", layer, option, value);
  }
}

}  // namespace

SharedLayer ReLU(ReLUOptions options) {
  const std::string layer = called(options.name, "ReLU");
  check_not_negative(layer, "max_value", options.max_value.value_or(0));
  check_not_negative(layer, "negative_slope", options.negative_slope);
  check_not_negative(layer, "threshold", options.threshold);
  return SharedLayer(std::make_shared<ReLULayer>(std::move(options)));
}

SharedLayer relu_from_config(const ConfigNode& node, const LayerRegistry&) {
  ReLUOptions options;
  ConfigReader reader = layer_reader(node, options.name);
  reader.optional("max_value", options.max_value, at_least(0));
  reader.optional("negative_slope", options.negative_slope, at_least(0));
  reader.optional("threshold", options.threshold, at_least(0));
  reader.finish();
  return ReLU(std::move(options));
}

}  // namespace meshwork
