#include "layers/up_sampling2d.h"

#include <memory>
#include <utility>

#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/upsampling.h"

namespace meshwork {
namespace {

class UpSampling2DLayer final : public Layer {
 public:
  explicit UpSampling2DLayer(UpSampling2DOptions options)
      : Layer(options.name), options_(std::move(options)) {}

  std::string class_name() const override { return "UpSampling2D"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    return builder.apply(std::make_unique<UpsamplingOperation>(
                             options_.size.rows, options_.size.columns, options_.interpolation),
                         {one_input(inputs)});
  }

 private:
  UpSampling2DOptions options_;
};

}  // namespace

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
  check_options(called(options.name, "UpSampling2D"), options);
  return SharedLayer(std::make_shared<UpSampling2DLayer>(std::move(options)));
}

void add_up_sampling2d(Catalog& catalog) {
  catalog.add<SharedLayer, UpSampling2DOptions>("UpSampling2D", {}, UpSampling2D);
}

}  // namespace meshwork
