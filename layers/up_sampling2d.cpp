#include "layers/up_sampling2d.h"

#include <memory>
#include <utility>

#include "layers/layer_of.h"
#include "runtime/graph/operations/reshape.h"
#include "runtime/graph/operations/upsampling.h"
#include "runtime/graph/operations/windows.h"

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

template <class Visitor>
void describe(UpSampling1DOptions& options, Visitor& option) {
  option.about("sequences enlarged by a whole factor");
  describe_name(options, option);
  option("size", options.size, length, "how often each step stands");
}

SharedLayer UpSampling1D(UpSampling1DOptions options) {
  return layer_of(
      "UpSampling1D", std::move(options),
      [](const UpSampling1DOptions& of, LayerBuilder& builder, TensorId x) {
        const Shape shape = builder.shape(x);
        check_image(shape, 1);
        // An image of one column.
        const TensorId image =
            builder.apply(std::make_unique<ReshapeOperation>(Shape{shape[1], 1, shape[2]}), {x});
        const TensorId enlarged = builder.apply(
            std::make_unique<UpsamplingOperation>(of.size, 1, Interpolation::nearest), {image});
        return builder.apply(
            std::make_unique<ReshapeOperation>(Shape{shape[1] * of.size, shape[2]}), {enlarged});
      });
}

void add_up_sampling2d(Catalog& catalog) {
  catalog.add<SharedLayer, UpSampling1DOptions>("UpSampling1D", {}, UpSampling1D);
  catalog.add<SharedLayer, UpSampling2DOptions>("UpSampling2D", {}, UpSampling2D);
}

}  // namespace meshwork
