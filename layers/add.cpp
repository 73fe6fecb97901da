#include "layers/add.h"

#include <memory>
#include <utility>

#include "collectives/error.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/add.h"

namespace meshwork {
namespace {

class AddLayer final : public Layer {
 public:
  using Layer::Layer;
  std::string class_name() const override { return "Add"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      if (builder.shape(inputs[i]) != builder.shape(inputs[0])) {
        fail("expected inputs of equal shapes, found {} for input 0 and {} for input {}",
             to_string(builder.shape(inputs[0])), to_string(builder.shape(inputs[i])), i);
      }
    }
    return builder.apply(std::make_unique<AddOperation>(static_cast<int>(inputs.size())),
                         {inputs.begin(), inputs.end()});
  }
};

}  // namespace

template <class Visitor>
void describe(AddOptions& options, Visitor& option) {
  option.about("the sum of inputs of one shape");
  describe_name(options, option);
}

SharedLayer Add(AddOptions options) {
  return SharedLayer(std::make_shared<AddLayer>(std::move(options.name)));
}

void add_add(Catalog& catalog) {
  catalog.add<SharedLayer, AddOptions>("Add", {}, Add);
}

}  // namespace meshwork
