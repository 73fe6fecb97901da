#include "layers/add.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/add.h"

namespace meshwork {

template <class Visitor>
void describe(AddOptions& options, Visitor& option) {
  option.about("the sum of inputs of one shape");
  describe_name(options, option);
}

SharedLayer Add(AddOptions options) {
  return layer_of("Add", std::move(options),
                  [](const AddOptions&, LayerBuilder& builder, std::span<const TensorId> inputs) {
                    return builder.apply(
                        std::make_unique<AddOperation>(static_cast<int>(inputs.size())),
                        {inputs.begin(), inputs.end()});
                  });
}

void add_add(Catalog& catalog) {
  catalog.add<SharedLayer, AddOptions>("Add", {}, Add);
}

}  // namespace meshwork
