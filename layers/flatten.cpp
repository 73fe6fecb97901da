#include "layers/flatten.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/reshape.h"

namespace meshwork {

template <class Visitor>
void describe(FlattenOptions& options, Visitor& option) {
  option.about("all dimensions of a sample as one");
  describe_name(options, option);
}

SharedLayer Flatten(FlattenOptions options) {
  return layer_of(
      "Flatten", std::move(options), [](const FlattenOptions&, LayerBuilder& builder, TensorId x) {
        const std::int64_t features = element_count(std::span(builder.shape(x)).subspan(1));
        return builder.apply(std::make_unique<ReshapeOperation>(Shape{features}), {x});
      });
}

void add_flatten(Catalog& catalog) {
  catalog.add<SharedLayer, FlattenOptions>("Flatten", {}, Flatten);
}

}  // namespace meshwork
