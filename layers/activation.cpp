#include "layers/activation.h"

#include <memory>
#include <utility>

#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/activation.h"

namespace meshwork {
namespace {

class ActivationLayerClass final : public Layer {
 public:
  explicit ActivationLayerClass(const ActivationLayerOptions& options)
      : Layer(options.name), activation_(options.activation) {}
  std::string class_name() const override { return "Activation"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    return builder.apply(make_activation(activation_), {one_input(inputs)});
  }

 private:
  Activation activation_;
};

}  // namespace

template <class Visitor>
void describe(ActivationLayerOptions& options, Visitor& option) {
  option.about("a function of each element");
  describe_name(options, option);
  option.required("activation", options.activation, "the function");
}

SharedLayer ActivationLayer(ActivationLayerOptions options) {
  return SharedLayer(std::make_shared<ActivationLayerClass>(options));
}

void add_activation(Catalog& catalog) {
  catalog.add<SharedLayer, ActivationLayerOptions>("Activation", {}, ActivationLayer);
}

}  // namespace meshwork
