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

template <class Visitor>
void describe(RescalingOptions& options, Visitor& option) {
  option.about("inputs x scale + offset");
  describe_name(options, option);
  option.required("scale", options.scale, finite, "factor");
  option("offset", options.offset, finite, "added to the product");
}

SharedLayer Rescaling(RescalingOptions options) {
  check_options(called(options.name, "Rescaling"), options);
  return SharedLayer(std::make_shared<RescalingLayer>(options));
}

void add_rescaling(Catalog& catalog) {
  catalog.add<SharedLayer, RescalingOptions>("Rescaling", {}, Rescaling);
}

}  // namespace meshwork
