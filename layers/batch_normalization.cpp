#include "layers/batch_normalization.h"

#include <memory>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/batch_normalization.h"

namespace meshwork {

template <class Visitor>
void describe(BatchNormalizationLayerOptions& options, Visitor& option) {
  option.about("each channel normalized by mean and variance of the global batch");
  describe_name(options, option);
  option("axis", options.axis, "dimension of the channels; only the last, -1");
  option("momentum", options.momentum, between(0, 1),
         "share of the moving statistics kept per step");
  option("epsilon", options.epsilon, positive, "added to the variance");
  option("center", options.center, "add beta");
  option("scale", options.scale, "multiply by gamma");
  option("trainable", options.trainable, "train beta and gamma and use the batch's statistics");
  describe_variable(option, "beta", "beta", options.beta_initializer, options.beta_regularizer,
                    options.beta_constraint);
  describe_variable(option, "gamma", "gamma", options.gamma_initializer, options.gamma_regularizer,
                    options.gamma_constraint);
  option("moving_mean_initializer", options.moving_mean_initializer, "initial moving mean");
  option("moving_variance_initializer", options.moving_variance_initializer,
         "initial moving variance");
}

SharedLayer BatchNormalization(BatchNormalizationLayerOptions options) {
  if (options.axis != -1) {
    fail("{}: axis: expected -1, the last dimension, where the channels are, found {}",
         called(options.name, "BatchNormalization"), options.axis);
  }
  return layer_of(
      "BatchNormalization", std::move(options),
      [](const BatchNormalizationLayerOptions& of, LayerBuilder& builder, TensorId x) {
        const Shape& shape = builder.shape(x);
        if (shape.size() < 2) {
          fail("expected an input of at least two dimensions, batch and channels, found shape {}",
               to_string(shape));
        }
        if (builder.mask(x) >= 0 && builder.trainable()) {
          fail(
              "its input has masked places, which its batch statistics would count; freeze it "
              "(trainable: false), or take LayerNormalization");
        }
        const Shape channels{shape.back()};
        std::vector<TensorId> operands{x};
        const auto add = [&](const char* name, const Initializer& initializer,
                             const Regularizer& regularizer, const Constraint& constraint,
                             bool trainable = true) {
          operands.push_back(builder.variable(name, {.shape = channels,
                                                     .initializer = initializer,
                                                     .regularizer = regularizer,
                                                     .constraint = constraint,
                                                     .trainable = trainable}));
        };
        if (of.scale) {
          add("gamma", of.gamma_initializer, of.gamma_regularizer, of.gamma_constraint);
        }
        if (of.center) {
          add("beta", of.beta_initializer, of.beta_regularizer, of.beta_constraint);
        }
        add("moving_mean", of.moving_mean_initializer, {}, {}, false);
        add("moving_variance", of.moving_variance_initializer, {}, {}, false);
        return builder.apply(std::make_unique<BatchNormalizationOperation>(
                                 BatchNormalizationOptions{.scale = of.scale,
                                                           .center = of.center,
                                                           .momentum = of.momentum,
                                                           .epsilon = of.epsilon,
                                                           .frozen = !builder.trainable()}),
                             std::move(operands));
      });
}

void add_batch_normalization(Catalog& catalog) {
  catalog.add<SharedLayer, BatchNormalizationLayerOptions>("BatchNormalization", {},
                                                           BatchNormalization);
}

}  // namespace meshwork
