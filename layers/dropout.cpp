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

template <class Visitor>
void describe(DropoutOptions& options, Visitor& option) {
  option.about("sets random elements to 0 in training and scales the others up");
  describe_name(options, option);
  option.required("rate", options.rate, between(0, 1), "share of elements set to 0");
}

SharedLayer Dropout(DropoutOptions options) {
  check_options(called(options.name, "Dropout"), options);
  return SharedLayer(std::make_shared<DropoutLayer>(options));
}

void add_dropout(Catalog& catalog) {
  catalog.add<SharedLayer, DropoutOptions>("Dropout", {}, Dropout);
}

}  // namespace meshwork
