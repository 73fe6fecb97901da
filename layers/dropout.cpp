#include "layers/dropout.h"

#include <memory>
#include <utility>

#include "collectives/error.h"
#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/dropout.h"

namespace meshwork {
namespace {

class DropoutLayer final : public Layer {
 public:
  explicit DropoutLayer(const DropoutOptions& options) : Layer(options.name), rate_(options.rate) {}
  std::string class_name() const override { return "Dropout"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    return builder.apply(std::make_unique<DropoutOperation>(rate_), {one_input(inputs)});
  }

 private:
  float rate_;
};

}  // namespace

SharedLayer Dropout(DropoutOptions options) {
  if (!(options.rate >= 0 && options.rate <= 1)) {
    fail("{}: `rate`, the fraction that is dropped, is {}; it has to lie between 0 and 1",
         called(options.name, "Dropout"), options.rate);
  }
  return SharedLayer(std::make_shared<DropoutLayer>(options));
}

SharedLayer dropout_from_config(const ConfigNode& node, const LayerRegistry&) {
  DropoutOptions options;
  ConfigReader reader = layer_reader(node, options.name);
  reader.required("rate", options.rate, between(0, 1));
  reader.finish();
  return Dropout(std::move(options));
}

}  // namespace meshwork
