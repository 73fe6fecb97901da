#include "layers/softmax.h"

#include <utility>

#include "layers/along_dimension.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/softmax.h"

namespace meshwork {

template <class Visitor>
void describe(SoftmaxOptions& options, Visitor& option) {
  option.about("exp(x) / sum of exp(x) over one dimension");
  describe_name(options, option);
  option("axis", options.axis, "the dimension; -1: the last");
}

SharedLayer Softmax(SoftmaxOptions options) {
  return layer_of("Softmax", std::move(options),
                  [](const SoftmaxOptions& of, LayerBuilder& builder, TensorId x) {
                    return along_dimension<SoftmaxOperation>(builder, x, of.axis, "classes");
                  });
}

void add_softmax(Catalog& catalog) {
  catalog.add<SharedLayer, SoftmaxOptions>("Softmax", {}, Softmax);
}

}  // namespace meshwork
