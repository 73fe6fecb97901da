#include "layers/up_sampling2d.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/upsampling.h"

namespace meshwork {

template <class Visitor>
void describe(UpSampling2DOptions& options, Visitor& option) {
  option.about("images enlarged by whole factors");
  describe_name(options, option);
  option("size", options.size, length, "factors of rows and columns");
  option.choice("interpolation", options.interpolation,
                {{"nearest", Interpolation::nearest}, {"bilinear", Interpolation::bilinear}},
                "repeat pixels, or interpolate between their centres");
}

SharedLayer UpSampling2D(UpSampling2DOptions options) {
  return layer_of("UpSampling2D", std::move(options),
                  [](const UpSampling2DOptions& of, LayerBuilder& builder, TensorId x) {
                    return builder.apply(std::make_unique<UpsamplingOperation>(
                                             of.size.rows, of.size.columns, of.interpolation),
                                         {x});
                  });
}

void add_up_sampling2d(Catalog& catalog) {
  catalog.add<SharedLayer, UpSampling2DOptions>("UpSampling2D", {}, UpSampling2D);
}

}  // namespace meshwork
