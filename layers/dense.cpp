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

template <class Visitor>
void describe(DenseOptions& options, Visitor& option) {
  option.about("activation(inputs x kernel + bias)");
  describe_name(options, option);
  option.required("units", options.units, positive, "length of the output's last dimension");
  describe_kernel_and_bias(options, option);
}

SharedLayer Dense(DenseOptions options) {
  check_options(called(options.name, "Dense"), options);
  return SharedLayer(std::make_shared<DenseLayer>(std::move(options)));
}

void add_dense(Catalog& catalog) {
  catalog.add<SharedLayer, DenseOptions>("Dense", {}, Dense);
}

}  // namespace meshwork
