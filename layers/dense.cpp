#include "layers/dense.h"

#include <memory>
#include <utility>

#include "collectives/error.h"
#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/bias.h"
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
    const TensorId kernel =
        builder.variable("kernel", {.shape = {shape.back(), options_.units},
                                    .initializer = options_.kernel_initializer,
                                    .regularizer = options_.kernel_regularizer});
    TensorId y = builder.apply(std::make_unique<ProductOperation>(), {x, kernel});
    if (options_.use_bias) {
      const TensorId bias = builder.variable("bias", {.shape = {options_.units},
                                                      .initializer = options_.bias_initializer,
                                                      .regularizer = options_.bias_regularizer});
      y = builder.apply(std::make_unique<BiasOperation>(), {y, bias});
    }
    if (options_.activation != Activation::linear) {
      y = builder.apply(make_activation(options_.activation), {y});
    }
    return y;
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
  reader.optional("activation", options.activation);
  reader.optional("use_bias", options.use_bias);
  reader.optional("kernel_initializer", options.kernel_initializer);
  reader.optional("bias_initializer", options.bias_initializer);
  reader.optional("kernel_regularizer", options.kernel_regularizer);
  reader.optional("bias_regularizer", options.bias_regularizer);
  reader.finish();
  return Dense(std::move(options));
}

}  // namespace meshwork
