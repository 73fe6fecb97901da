#include "layers/merging.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/add.h"
#include "runtime/graph/operations/affine.h"
#include "runtime/graph/operations/pair.h"

namespace meshwork {
namespace {

// The function of the first two, then of that and the third, and so on.
SharedLayer pairwise(const char* class_name, PairFunction function, MergingOptions options) {
  return layer_of(
      class_name, std::move(options),
      [function](const MergingOptions&, LayerBuilder& builder, std::span<const TensorId> inputs) {
        if (inputs.size() < 2 || (function == PairFunction::difference && inputs.size() > 2)) {
          fail("expected {} inputs, found {}",
               function == PairFunction::difference ? "two" : "at least two", inputs.size());
        }
        TensorId y = inputs.front();
        for (const TensorId x : inputs.subspan(1)) {
          y = builder.apply(std::make_unique<PairOperation>(function), {y, x});
        }
        return y;
      });
}

}  // namespace

template <class Visitor>
void describe(MergingOptions& options, Visitor& option) {
  option.about("inputs of one shape, combined element by element");
  describe_name(options, option);
}

SharedLayer Multiply(MergingOptions options) {
  return pairwise("Multiply", PairFunction::product, std::move(options));
}

SharedLayer Maximum(MergingOptions options) {
  return pairwise("Maximum", PairFunction::maximum, std::move(options));
}

SharedLayer Minimum(MergingOptions options) {
  return pairwise("Minimum", PairFunction::minimum, std::move(options));
}

SharedLayer Subtract(MergingOptions options) {
  return pairwise("Subtract", PairFunction::difference, std::move(options));
}

SharedLayer Average(MergingOptions options) {
  return layer_of(
      "Average", std::move(options),
      [](const MergingOptions&, LayerBuilder& builder, std::span<const TensorId> inputs) {
        if (inputs.size() < 2) {
          fail("expected at least two inputs, found {}", inputs.size());
        }
        const auto count = static_cast<int>(inputs.size());
        const TensorId sum =
            builder.apply(std::make_unique<AddOperation>(count), {inputs.begin(), inputs.end()});
        return builder.apply(
            std::make_unique<AffineOperation>(1.0f / static_cast<float>(count), 0.0f), {sum});
      });
}

void add_merging(Catalog& catalog) {
  catalog.add<SharedLayer, MergingOptions>("Multiply", {}, Multiply);
  catalog.add<SharedLayer, MergingOptions>("Average", {}, Average);
  catalog.add<SharedLayer, MergingOptions>("Maximum", {}, Maximum);
  catalog.add<SharedLayer, MergingOptions>("Minimum", {}, Minimum);
  catalog.add<SharedLayer, MergingOptions>("Subtract", {}, Subtract);
}

}  // namespace meshwork
