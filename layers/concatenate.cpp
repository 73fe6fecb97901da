#include "layers/concatenate.h"

#include <memory>
#include <utility>

#include "collectives/error.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/concatenate.h"

namespace meshwork {

template <class Visitor>
void describe(ConcatenateOptions& options, Visitor& option) {
  option.about("inputs joined along one dimension");
  describe_name(options, option);
  option("axis", options.axis, "the dimension; -1: the last");
}

SharedLayer Concatenate(ConcatenateOptions options) {
  return layer_of(
      "Concatenate", std::move(options),
      [](const ConcatenateOptions& of, LayerBuilder& builder, std::span<const TensorId> inputs) {
        const Shape& shape = builder.shape(inputs[0]);
        const int count = static_cast<int>(shape.size());
        const int dimension = of.axis < 0 ? of.axis + count : of.axis;
        if (dimension == 0) {
          fail("`axis` {} is the batch of inputs of shape {}; batches cannot be concatenated",
               of.axis, to_string(shape));
        }
        if (dimension < 0 || dimension >= count) {
          fail("`axis` is {}, but inputs of shape {} have dimensions 0 to {}", of.axis,
               to_string(shape), count - 1);
        }
        return builder.apply(
            std::make_unique<ConcatenateOperation>(static_cast<int>(inputs.size()), dimension),
            {inputs.begin(), inputs.end()});
      });
}

void add_concatenate(Catalog& catalog) {
  catalog.add<SharedLayer, ConcatenateOptions>("Concatenate", {}, Concatenate);
}

}  // namespace meshwork
