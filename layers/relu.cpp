#include "layers/relu.h"

#include <memory>
#include <utility>

#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/activation.h"

namespace meshwork {
namespace {

class ReLULayer final : public Layer {
 public:
  using Layer::Layer;
  std::string class_name() const override { return "ReLU"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    return builder.apply(make_activation(Activation::relu), {one_input(inputs)});
  }
};

}  // namespace

SharedLayer ReLU(ReLUOptions options) {
  return SharedLayer(std::make_shared<ReLULayer>(std::move(options.name)));
}

SharedLayer relu_from_config(const ConfigNode& node, const LayerRegistry&) {
  ReLUOptions options;
  layer_reader(node, options.name).finish();
  return ReLU(std::move(options));
}

}  // namespace meshwork
