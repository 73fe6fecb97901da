#include "layers/rescaling.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/affine.h"

namespace meshwork {

template <class Visitor>
void describe(RescalingOptions& options, Visitor& option) {
  option.about("inputs x scale + offset");
  describe_name(options, option);
  option.required("scale", options.scale, any_finite, "factor");
  option("offset", options.offset, any_finite, "added to the product");
}

SharedLayer Rescaling(RescalingOptions options) {
  return layer_of("Rescaling", std::move(options),
                  [](const RescalingOptions& of, LayerBuilder& builder, TensorId x) {
                    return builder.apply(std::make_unique<AffineOperation>(of.scale, of.offset),
                                         {x});
                  });
}

void add_rescaling(Catalog& catalog) {
  catalog.add<SharedLayer, RescalingOptions>("Rescaling", {}, Rescaling);
}

}  // namespace meshwork
