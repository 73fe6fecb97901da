// A layer from outside: y = x + x + factor, in a library of its own.
#include <memory>
#include <string>

#include <meshwork/extension.h>

#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/add.h"
#include "runtime/graph/operations/bias.h"

namespace {

class Doubled final : public meshwork::Layer {
 public:
  using Layer::Layer;
  std::string class_name() const override { return "Doubled"; }
  meshwork::TensorId build(meshwork::LayerBuilder& builder,
                           std::span<const meshwork::TensorId> inputs) const override {
    const auto factor = builder.variable("factor", {.shape = {builder.shape(inputs[0]).back()}});
    const auto twice =
        builder.apply(std::make_unique<meshwork::AddOperation>(2), {inputs[0], inputs[0]});
    return builder.apply(std::make_unique<meshwork::BiasOperation>(), {twice, factor});
  }
};

struct Options {
  std::string name;
};

template <class Visitor>
void describe(Options& options, Visitor& option) {
  meshwork::describe_name(options, option);
}

}  // namespace

MESHWORK_EXTENSION(catalog) {
  catalog.add<meshwork::SharedLayer, Options>("Doubled", {}, [](const Options& options) {
    return meshwork::SharedLayer(std::make_shared<Doubled>(options.name));
  });
}
