#include "layers/relu.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/rectifier.h"

namespace meshwork {

template <class Visitor>
void describe(ReLUOptions& options, Visitor& option) {
  option.about("max(x, 0), with a bound, a slope and a threshold");
  describe_name(options, option);
  option("max_value", options.max_value, at_least(0), "upper bound of the output; none: unbounded");
  option("negative_slope", options.negative_slope, at_least(0), "slope below the threshold");
  option("threshold", options.threshold, at_least(0), "input above which the slope is 1");
}

SharedLayer ReLU(ReLUOptions options) {
  return layer_of("ReLU", std::move(options),
                  [](const ReLUOptions& of, LayerBuilder& builder, TensorId x) {
                    if (!of.max_value && of.negative_slope == 0 && of.threshold == 0) {
                      return builder.apply(make_activation(Activation::relu), {x});
                    }
                    Rectifier rectifier;
                    rectifier.slope = of.negative_slope;
                    rectifier.threshold = of.threshold;
                    rectifier.limit = of.max_value.value_or(rectifier.limit);
                    return builder.apply(std::make_unique<RectifierOperation>(rectifier), {x});
                  });
}

void add_relu(Catalog& catalog) {
  catalog.add<SharedLayer, ReLUOptions>("ReLU", {}, ReLU);
}

}  // namespace meshwork
