#include "layers/dropout.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/dropout.h"

namespace meshwork {

template <class Visitor>
void describe(DropoutOptions& options, Visitor& option) {
  option.about("sets random elements to 0 in training and scales the others up");
  describe_name(options, option);
  option.required("rate", options.rate, between(0, 1), "share of elements set to 0");
}

SharedLayer Dropout(DropoutOptions options) {
  return layer_of("Dropout", std::move(options),
                  [](const DropoutOptions& of, LayerBuilder& builder, TensorId x) {
                    return builder.apply(std::make_unique<DropoutOperation>(of.rate), {x});
                  });
}

void add_dropout(Catalog& catalog) {
  catalog.add<SharedLayer, DropoutOptions>("Dropout", {}, Dropout);
}

}  // namespace meshwork
