#include "layers/rescaling.h"

#include <cmath>
#include <memory>
#include <utility>

#include "collectives/error.h"
#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/affine.h"

namespace meshwork {
namespace {

class RescalingLayer final : public Layer {
 public:
  explicit RescalingLayer(const RescalingOptions& options)
      : Layer(options.name), scale_(options.scale), offset_(options.offset) {}
  std::string class_name() const override { return "Rescaling"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    return builder.apply(std::make_unique<AffineOperation>(scale_, offset_), {one_input(inputs)});
  }

 private:
  float scale_;
  float offset_;
};

}  // namespace

SharedLayer Rescaling(RescalingOptions options) {
  if (!std::isfinite(options.scale) || !std::isfinite(options.offset)) {
    fail("{}: `scale` {} and `offset` {} have to be finite numbers",
         called(options.name, "Rescaling"), options.scale, options.offset);
  }
  return SharedLayer(std::make_shared<RescalingLayer>(options));
}

SharedLayer rescaling_from_config(const ConfigNode& node, const LayerRegistry&) {
  RescalingOptions options;
  ConfigReader reader = layer_reader(node, options.name);
  reader.required("scale", options.scale, finite);
  reader.optional("offset", options.offset, finite);
  reader.finish();
  return Rescaling(std::move(options));
}

}  // namespace meshwork
