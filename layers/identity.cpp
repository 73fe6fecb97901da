#include "layers/identity.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/identity.h"

namespace meshwork {

template <class Visitor>
void describe(IdentityOptions& options, Visitor& option) {
  option.about("its input, unchanged");
  describe_name(options, option);
}

SharedLayer Identity(IdentityOptions options) {
  return layer_of("Identity", std::move(options),
                  [](const IdentityOptions&, LayerBuilder& builder, TensorId x) {
                    return builder.apply(std::make_unique<IdentityOperation>(), {x});
                  });
}

void add_identity(Catalog& catalog) {
  catalog.add<SharedLayer, IdentityOptions>("Identity", {}, Identity);
}

}  // namespace meshwork
