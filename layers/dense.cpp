#include "layers/dense.h"

#include <memory>
#include <utility>

#include "collectives/error.h"
#include "layers/kernel_and_bias.h"
#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/product.h"

namespace meshwork {
namespace {

class DenseLayer final : public Layer {
 public:
  explicit DenseLayer(DenseOptions options) : Layer(options.name), options_(std::move(options)) {}

  std::string class_name() const override { return "Dense"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    const TensorId x = one_input(inputs);
    const Shape& shape = builder.shape(x);
    if (shape.size() < 2) {
      fail("expected an input of at least two dimensions, batch and features, found shape {}",
           to_string(shape));
    }
    return apply_kernel_and_bias(builder, options_, x, {shape.back(), options_.units},
                                 std::make_unique<ProductOperation>());
  }

 private:
  DenseOptions options_;
};

}  // namespace

SharedLayer Dense(DenseOptions options) {
  if (options.units < 1) {
    fail("{}: `units`, the number of outputs, is {}; it has to be positive",
         called(options.name, "Dense"), options.units);
  }
  return SharedLayer(std::make_shared<DenseLayer>(std::move(options)));
}

SharedLayer dense_from_config(const ConfigNode& node, const LayerRegistry&) {
  DenseOptions options;
  ConfigReader reader = layer_reader(node, options.name);
  reader.required("units", options.units, positive);
  read_kernel_and_bias(reader, options);
  reader.finish();
  return Dense(std::move(options));
}

}  // namespace meshwork
