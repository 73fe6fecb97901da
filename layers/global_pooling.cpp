#include "layers/global_pooling.h"

#include <memory>
#include <type_traits>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/contraction.h"
#include "runtime/graph/operations/global_pooling.h"
#include "runtime/graph/operations/pair.h"
#include "runtime/graph/operations/reshape.h"
#include "runtime/graph/operations/unit_rows.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {
namespace {

// Of a sequence with a mask m: the sum of m x, over the number n of places that count. m / n is
// m / sqrt(n), the mask as a vector of length 1, squared.
TensorId masked_mean(LayerBuilder& builder, TensorId x) {
  const TensorId unit = builder.apply(std::make_unique<UnitRowsOperation>(), {builder.mask(x)});
  const TensorId shares =
      builder.apply(std::make_unique<PairOperation>(PairFunction::product), {unit, unit});
  return builder.apply(std::make_unique<ContractionOperation>("btd,bt->bd"), {x, shares});
}

template <class Pooled>
SharedLayer pooling_of(const std::string& class_name, std::size_t spatial,
                       GlobalPoolingOptions options) {
  return layer_of(class_name, std::move(options),
                  [spatial](const GlobalPoolingOptions& of, LayerBuilder& builder, TensorId x) {
                    check_image(builder.shape(x), spatial);
                    const bool is_masked_mean = std::is_same_v<Pooled, GlobalAverageOperation> &&
                                                spatial == 1 && builder.mask(x) >= 0;
                    const TensorId y = is_masked_mean
                                           ? masked_mean(builder, x)
                                           : builder.apply(std::make_unique<Pooled>(), {x});
                    if (!of.keepdims) {
                      return y;
                    }
                    Shape kept(spatial, 1);
                    kept.push_back(builder.shape(x).back());
                    return builder.apply(std::make_unique<ReshapeOperation>(kept), {y});
                  });
}

}  // namespace

template <class Visitor>
void describe(GlobalPoolingOptions& options, Visitor& option) {
  option.about("the mean or the maximum of each channel over all places");
  describe_name(options, option);
  option("keepdims", options.keepdims, "keep the reduced dimensions, with length 1");
}

SharedLayer GlobalAveragePooling2D(GlobalPoolingOptions options) {
  return pooling_of<GlobalAverageOperation>("GlobalAveragePooling2D", 2, std::move(options));
}

SharedLayer GlobalMaxPooling2D(GlobalPoolingOptions options) {
  return pooling_of<GlobalMaximumOperation>("GlobalMaxPooling2D", 2, std::move(options));
}

SharedLayer GlobalAveragePooling1D(GlobalPoolingOptions options) {
  return pooling_of<GlobalAverageOperation>("GlobalAveragePooling1D", 1, std::move(options));
}

SharedLayer GlobalMaxPooling1D(GlobalPoolingOptions options) {
  return pooling_of<GlobalMaximumOperation>("GlobalMaxPooling1D", 1, std::move(options));
}

SharedLayer GlobalAveragePooling3D(GlobalPoolingOptions options) {
  return pooling_of<GlobalAverageOperation>("GlobalAveragePooling3D", 3, std::move(options));
}

SharedLayer GlobalMaxPooling3D(GlobalPoolingOptions options) {
  return pooling_of<GlobalMaximumOperation>("GlobalMaxPooling3D", 3, std::move(options));
}

void add_global_pooling(Catalog& catalog) {
  catalog.add<SharedLayer, GlobalPoolingOptions>("GlobalAveragePooling2D", {},
                                                 GlobalAveragePooling2D);
  catalog.add<SharedLayer, GlobalPoolingOptions>("GlobalMaxPooling2D", {}, GlobalMaxPooling2D);
  catalog.add<SharedLayer, GlobalPoolingOptions>("GlobalAveragePooling1D", {},
                                                 GlobalAveragePooling1D);
  catalog.add<SharedLayer, GlobalPoolingOptions>("GlobalMaxPooling1D", {}, GlobalMaxPooling1D);
  catalog.add<SharedLayer, GlobalPoolingOptions>("GlobalAveragePooling3D", {},
                                                 GlobalAveragePooling3D);
  catalog.add<SharedLayer, GlobalPoolingOptions>("GlobalMaxPooling3D", {}, GlobalMaxPooling3D);
}

}  // namespace meshwork
