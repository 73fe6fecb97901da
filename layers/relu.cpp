#include "layers/relu.h"

#include <memory>
#include <string_view>
#include <utility>

#include "collectives/error.h"
#include "layers/one_input.h"
#include "runtime/device/kernels/elementwise.h"
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

}  // namespace

template <class Visitor>
void describe(ReLUOptions& options, Visitor& option) {
  option.about("max(x, 0), with a bound, a slope and a threshold");
  describe_name(options, option);
  option("max_value", options.max_value, at_least(0), "upper bound of the output; none: unbounded");
  option("negative_slope", options.negative_slope, at_least(0), "slope below the threshold");
  option("threshold", options.threshold, at_least(0), "where the slope becomes 1");
}

SharedLayer ReLU(ReLUOptions options) {
  check_options(called(options.name, "ReLU"), options);
  return SharedLayer(std::make_shared<ReLULayer>(std::move(options)));
}

void add_relu(Catalog& catalog) {
  catalog.add<SharedLayer, ReLUOptions>("ReLU", {}, ReLU);
}

}  // namespace meshwork
