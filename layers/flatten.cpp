#include "layers/flatten.h"

#include <memory>
#include <utility>

#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/reshape.h"

namespace meshwork {
namespace {

class FlattenLayer final : public Layer {
 public:
  using Layer::Layer;
  std::string class_name() const override { return "Flatten"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    const TensorId x = one_input(inputs);
    const std::int64_t features = element_count(std::span(builder.shape(x)).subspan(1));
    return builder.apply(std::make_unique<ReshapeOperation>(Shape{features}), {x});
  }
};

}  // namespace

template <class Visitor>
void describe(FlattenOptions& options, Visitor& option) {
  option.about("all dimensions of a sample as one");
  describe_name(options, option);
}

SharedLayer Flatten(FlattenOptions options) {
  return SharedLayer(std::make_shared<FlattenLayer>(std::move(options.name)));
}

void add_flatten(Catalog& catalog) {
  catalog.add<SharedLayer, FlattenOptions>("Flatten", {}, Flatten);
}

}  // namespace meshwork
