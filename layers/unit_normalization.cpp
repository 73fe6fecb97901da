#include "layers/unit_normalization.h"

#include <utility>

#include "layers/along_dimension.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/unit_rows.h"

namespace meshwork {

template <class Visitor>
void describe(UnitNormalizationOptions& options, Visitor& option) {
  option.about("vectors along one dimension, divided by their length");
  describe_name(options, option);
  option("axis", options.axis, "the dimension; -1: the last");
}

SharedLayer UnitNormalization(UnitNormalizationOptions options) {
  return layer_of("UnitNormalization", std::move(options),
                  [](const UnitNormalizationOptions& of, LayerBuilder& builder, TensorId x) {
                    return along_dimension<UnitRowsOperation>(builder, x, of.axis, "vectors");
                  });
}

void add_unit_normalization(Catalog& catalog) {
  catalog.add<SharedLayer, UnitNormalizationOptions>("UnitNormalization", {}, UnitNormalization);
}

}  // namespace meshwork
