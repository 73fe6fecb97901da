#include "layers/softmax.h"

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/permute.h"
#include "runtime/graph/operations/softmax.h"

namespace meshwork {

template <class Visitor>
void describe(SoftmaxOptions& options, Visitor& option) {
  option.about("exp(x) / sum of exp(x) over one dimension");
  describe_name(options, option);
  option("axis", options.axis, "the dimension; -1: the last");
}

SharedLayer Softmax(SoftmaxOptions options) {
  return layer_of(
      "Softmax", std::move(options),
      [](const SoftmaxOptions& of, LayerBuilder& builder, TensorId x) {
        const Shape& shape = builder.shape(x);
        const int count = static_cast<int>(shape.size());
        const int classes = of.axis < 0 ? of.axis + count : of.axis;
        if (classes < 1 || classes >= count) {
          fail("`axis` is {}, but the classes of an input of shape {} can be dimensions 1 to {}",
               of.axis, to_string(shape), count - 1);
        }
        if (classes == count - 1) {
          return builder.apply(std::make_unique<SoftmaxOperation>(), {x});
        }
        // The classes exchange their place with the last dimension, and back.
        std::vector<int> exchanged(count);
        std::iota(exchanged.begin(), exchanged.end(), 0);
        std::swap(exchanged[classes], exchanged.back());
        const TensorId last = builder.apply(std::make_unique<PermuteOperation>(exchanged), {x});
        const TensorId y = builder.apply(std::make_unique<SoftmaxOperation>(), {last});
        return builder.apply(std::make_unique<PermuteOperation>(exchanged), {y});
      });
}

void add_softmax(Catalog& catalog) {
  catalog.add<SharedLayer, SoftmaxOptions>("Softmax", {}, Softmax);
}

}  // namespace meshwork
