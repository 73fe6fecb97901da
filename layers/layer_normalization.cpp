#include "layers/layer_normalization.h"

#include <memory>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/initializers/ones.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/row_normalization.h"

namespace meshwork {

template <class Visitor>
void describe(LayerNormalizationOptions& options, Visitor& option) {
  option.about("each row of the last dimension normalized by its mean and variance");
  describe_name(options, option);
  option("axis", options.axis, "dimension that is normalized; only the last, -1");
  option("epsilon", options.epsilon, positive, "added to the variance");
  option("center", options.center, "add beta");
  option("scale", options.scale, "multiply by gamma");
  option("trainable", options.trainable, "train beta and gamma; false: keep them fixed");
  describe_variable(option, "beta", "beta", options.beta_initializer, options.beta_regularizer,
                    options.beta_constraint);
  describe_variable(option, "gamma", "gamma", options.gamma_initializer, options.gamma_regularizer,
                    options.gamma_constraint);
}
template <class Visitor>
void describe(RMSNormalizationOptions& options, Visitor& option) {
  option.about("each row of the last dimension divided by its root mean square");
  describe_name(options, option);
  option("axis", options.axis, "dimension that is normalized; only the last, -1");
  option("epsilon", options.epsilon, positive, "added to the mean square");
  option("trainable", options.trainable, "train the scale; false: keep it fixed");
}

namespace {

template <class Options>
void check_axis(const Options& options, const char* kind) {
  if (options.axis != -1) {
    fail("{}: axis: expected -1, the last dimension, found {}", called(options.name, kind),
         options.axis);
  }
}
// The length of the rows of x.
Shape length_of_rows(LayerBuilder& builder, TensorId x) {
  const Shape& shape = builder.shape(x);
  if (shape.size() < 2) {
    fail("expected an input of at least two dimensions, batch and features, found shape {}",
         to_string(shape));
  }
  return {shape.back()};
}

}  // namespace

SharedLayer LayerNormalization(LayerNormalizationOptions options) {
  check_axis(options, "LayerNormalization");
  return layer_of(
      "LayerNormalization", std::move(options),
      [](const LayerNormalizationOptions& of, LayerBuilder& builder, TensorId x) {
        const Shape length = length_of_rows(builder, x);
        std::vector<TensorId> operands{x};
        if (of.scale) {
          operands.push_back(builder.variable("gamma", {.shape = length,
                                                        .initializer = of.gamma_initializer,
                                                        .regularizer = of.gamma_regularizer,
                                                        .constraint = of.gamma_constraint}));
        }
        if (of.center) {
          operands.push_back(builder.variable("beta", {.shape = length,
                                                       .initializer = of.beta_initializer,
                                                       .regularizer = of.beta_regularizer,
                                                       .constraint = of.beta_constraint}));
        }
        return builder.apply(std::make_unique<RowNormalizationOperation>(RowNormalizationOptions{
                                 .scale = of.scale, .center = of.center, .epsilon = of.epsilon}),
                             std::move(operands));
      });
}

SharedLayer RMSNormalization(RMSNormalizationOptions options) {
  check_axis(options, "RMSNormalization");
  return layer_of(
      "RMSNormalization", std::move(options),
      [](const RMSNormalizationOptions& of, LayerBuilder& builder, TensorId x) {
        const TensorId scale =
            builder.variable("scale", {.shape = length_of_rows(builder, x), .initializer = Ones()});
        return builder.apply(std::make_unique<RowNormalizationOperation>(RowNormalizationOptions{
                                 .centered = false, .center = false, .epsilon = of.epsilon}),
                             {x, scale});
      });
}

void add_layer_normalization(Catalog& catalog) {
  catalog.add<SharedLayer, LayerNormalizationOptions>("LayerNormalization", {}, LayerNormalization);
  catalog.add<SharedLayer, RMSNormalizationOptions>("RMSNormalization", {}, RMSNormalization);
}

}  // namespace meshwork
