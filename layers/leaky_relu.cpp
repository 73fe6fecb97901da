#include "layers/leaky_relu.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/rectifier.h"

namespace meshwork {

template <class Visitor>
void describe(LeakyReLUOptions& options, Visitor& option) {
  option.about("x where x > 0, else negative_slope * x");
  describe_name(options, option);
  option("negative_slope", options.negative_slope, at_least(0), "slope below 0");
}

template <class Visitor>
void describe(ELUOptions& options, Visitor& option) {
  option.about("x where x > 0, else alpha * (exp(x) - 1)");
  describe_name(options, option);
  option("alpha", options.alpha, finite_not_negative,
         "negated limit of the output for large negative x");
}

SharedLayer LeakyReLU(LeakyReLUOptions options) {
  return layer_of("LeakyReLU", std::move(options),
                  [](const LeakyReLUOptions& of, LayerBuilder& builder, TensorId x) {
                    return builder.apply(
                        std::make_unique<RectifierOperation>(Rectifier{.slope = of.negative_slope}),
                        {x});
                  });
}

SharedLayer ELU(ELUOptions options) {
  return layer_of(
      "ELU", std::move(options), [](const ELUOptions& of, LayerBuilder& builder, TensorId x) {
        return builder.apply(std::make_unique<ActivationOperation>(Activation::elu, of.alpha), {x});
      });
}

void add_leaky_relu(Catalog& catalog) {
  catalog.add<SharedLayer, LeakyReLUOptions>("LeakyReLU", {}, LeakyReLU);
  catalog.add<SharedLayer, ELUOptions>("ELU", {}, ELU);
}

}  // namespace meshwork
