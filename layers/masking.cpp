#include "layers/masking.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/mask.h"

namespace meshwork {

template <class Visitor>
void describe(MaskingOptions& options, Visitor& option) {
  option.about(
      "its input; attention, means over places, losses and metrics ignore places whose features "
      "all equal mask_value");
  describe_name(options, option);
  option("mask_value", options.mask_value, any_finite, "the value");
}

SharedLayer Masking(MaskingOptions options) {
  return layer_of(
      "Masking", std::move(options),
      [](const MaskingOptions& of, LayerBuilder& builder, TensorId x) {
        const std::size_t dimensions = builder.shape(x).size();
        if (dimensions < 3) {
          fail("expected sequences of shape (batch, length, features), found {}",
               to_string(builder.shape(x)));
        }
        const MaskOptions options{.value = static_cast<double>(of.mask_value),
                                  .dimensions = dimensions - 1};
        const TensorId mask = builder.apply(std::make_unique<MaskOperation>(options), {x});
        const TensorId y = builder.apply(std::make_unique<MaskedRowsOperation>(), {x, mask});
        builder.set_mask(y, mask);
        return y;
      });
}

void add_masking(Catalog& catalog) {
  catalog.add<SharedLayer, MaskingOptions>("Masking", {}, Masking);
}

}  // namespace meshwork
