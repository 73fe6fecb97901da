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

SharedLayer UpSampling2D(UpSampling2DOptions options) {
  check_length(called(options.name, "UpSampling2D"), "size", options.size);
  return SharedLayer(std::make_shared<UpSampling2DLayer>(std::move(options)));
}

SharedLayer up_sampling2d_from_config(const ConfigNode& node, const LayerRegistry&) {
  UpSampling2DOptions options;
  ConfigReader reader = layer_reader(node, options.name);
  reader.optional("size", options.size);
  reader.choice("interpolation", options.interpolation,
                {{"nearest", Interpolation::nearest}, {"bilinear", Interpolation::bilinear}});
  reader.finish();
  return UpSampling2D(std::move(options));
}

}  // namespace meshwork
