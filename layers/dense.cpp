#include "layers/dense.h"

#include <memory>
#include <utility>

#include "collectives/error.h"
#include "layers/kernel_and_bias.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/contraction.h"

namespace meshwork {

template <class Visitor>
void describe(DenseOptions& options, Visitor& option) {
  option.about("activation(inputs x kernel + bias)");
  describe_name(options, option);
  option.required("units", options.units, positive, "length of the output's last dimension");
  describe_kernel_and_bias(options, option);
}

SharedLayer Dense(DenseOptions options) {
  return layer_of("Dense", std::move(options),
                  [](const DenseOptions& of, LayerBuilder& builder, TensorId x) {
                    const Shape& shape = builder.shape(x);
                    if (shape.size() < 2) {
                      fail(
                          "expected an input of at least two dimensions, batch and features, "
                          "found shape {}",
                          to_string(shape));
                    }
                    return apply_kernel_and_bias(
                        builder, of, x, {shape.back(), of.units},
                        std::make_unique<ContractionOperation>(dense_equation(shape.size())));
                  });
}

void add_dense(Catalog& catalog) {
  catalog.add<SharedLayer, DenseOptions>("Dense", {}, Dense);
}

}  // namespace meshwork
