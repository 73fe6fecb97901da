#include "layers/activation.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/activation.h"

namespace meshwork {

template <class Visitor>
void describe(ActivationLayerOptions& options, Visitor& option) {
  option.about("a function of each element");
  describe_name(options, option);
  option.required("activation", options.activation, "the function");
}

SharedLayer ActivationLayer(ActivationLayerOptions options) {
  return layer_of("Activation", std::move(options),
                  [](const ActivationLayerOptions& of, LayerBuilder& builder, TensorId x) {
                    return builder.apply(make_activation(of.activation), {x});
                  });
}

void add_activation(Catalog& catalog) {
  catalog.add<SharedLayer, ActivationLayerOptions>("Activation", {}, ActivationLayer);
}

}  // namespace meshwork
