#include "layers/concatenate.h"

#include <memory>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/concatenate.h"
#include "runtime/graph/operations/pair.h"

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
        const auto joined = [&](std::vector<TensorId> parts) {
          const auto count = static_cast<int>(parts.size());
          return builder.apply(std::make_unique<ConcatenateOperation>(count, dimension),
                               std::move(parts));
        };
        const TensorId y = joined({inputs.begin(), inputs.end()});
        // Of places that are joined the masks are; of features, what no mask leaves out counts.
        std::vector<TensorId> masks;
        for (const TensorId x : inputs) {
          if (builder.mask(x) >= 0) masks.push_back(builder.mask(x));
        }
        if (masks.empty()) return y;
        const auto masked = static_cast<int>(builder.shape(masks.front()).size());
        if (dimension >= masked) {
          TensorId mask = masks.front();
          for (const TensorId other : masks) {
            if (other == mask) continue;
            mask = builder.apply(std::make_unique<PairOperation>(PairFunction::product),
                                 {mask, other});
          }
          builder.set_mask(y, mask);
        } else if (masks.size() == inputs.size()) {
          builder.set_mask(y, joined(masks));
        }
        return y;
      });
}

void add_concatenate(Catalog& catalog) {
  catalog.add<SharedLayer, ConcatenateOptions>("Concatenate", {}, Concatenate);
}

}  // namespace meshwork
