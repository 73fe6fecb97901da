#include "layers/batch_normalization.h"

#include <memory>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/one_input.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/operations/batch_normalization.h"

namespace meshwork {
namespace {

class BatchNormalizationLayer final : public Layer {
 public:
  explicit BatchNormalizationLayer(BatchNormalizationLayerOptions options)
      : Layer(options.name), options_(std::move(options)) {}

  std::string class_name() const override { return "BatchNormalization"; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    const TensorId x = one_input(inputs);
    const Shape& shape = builder.shape(x);
    if (shape.size() < 2) {
      fail("expected an input of at least two dimensions, batch and channels, found shape {}",
           to_string(shape));
    }
    const Shape channels{shape.back()};
    std::vector<TensorId> operands{x};
    if (options_.scale) {
      operands.push_back(builder.variable("gamma", {.shape = channels,
                                                    .initializer = options_.gamma_initializer,
                                                    .regularizer = options_.gamma_regularizer,
                                                    .trainable = options_.trainable}));
    }
    if (options_.center) {
      operands.push_back(builder.variable("beta", {.shape = channels,
                                                   .initializer = options_.beta_initializer,
                                                   .regularizer = options_.beta_regularizer,
                                                   .trainable = options_.trainable}));
    }
    operands.push_back(builder.variable(
        "moving_mean",
        {.shape = channels, .initializer = options_.moving_mean_initializer, .trainable = false}));
    operands.push_back(
        builder.variable("moving_variance", {.shape = channels,
                                             .initializer = options_.moving_variance_initializer,
                                             .trainable = false}));
    return builder.apply(std::make_unique<BatchNormalizationOperation>(
                             BatchNormalizationOptions{.scale = options_.scale,
                                                       .center = options_.center,
                                                       .momentum = options_.momentum,
                                                       .epsilon = options_.epsilon,
                                                       .frozen = !options_.trainable}),
                         std::move(operands));
  }

 private:
  BatchNormalizationLayerOptions options_;
};

}  // namespace

SharedLayer BatchNormalization(BatchNormalizationLayerOptions options) {
  const std::string layer = called(options.name, "BatchNormalization");
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    fail("{}: `momentum` is {}; it has to lie between 0 and 1", layer, options.momentum);
  }
  if (!(options.epsilon > 0)) {
    fail("{}: `epsilon`, which is added to the variance, is {}; it has to be positive", layer,
         options.epsilon);
  }
  return SharedLayer(std::make_shared<BatchNormalizationLayer>(std::move(options)));
}

SharedLayer batch_normalization_from_config(const ConfigNode& node, const LayerRegistry&) {
  BatchNormalizationLayerOptions options;
  ConfigReader reader = layer_reader(node, options.name);
  if (const std::optional<ConfigNode> dimension = reader.node("axis");
      dimension && dimension->as<int>() != -1) {
    dimension->fail("`axis` is the dimension of the channels, which are the last: -1");
  }
  reader.optional("momentum", options.momentum, between(0, 1));
  reader.optional("epsilon", options.epsilon, positive);
  reader.optional("center", options.center);
  reader.optional("scale", options.scale);
  reader.optional("trainable", options.trainable);
  reader.optional("beta_initializer", options.beta_initializer);
  reader.optional("gamma_initializer", options.gamma_initializer);
  reader.optional("moving_mean_initializer", options.moving_mean_initializer);
  reader.optional("moving_variance_initializer", options.moving_variance_initializer);
  reader.optional("beta_regularizer", options.beta_regularizer);
  reader.optional("gamma_regularizer", options.gamma_regularizer);
  reader.finish();
  return BatchNormalization(std::move(options));
}

}  // namespace meshwork
