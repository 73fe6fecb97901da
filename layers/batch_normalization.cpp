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

template <class Visitor>
void describe(BatchNormalizationLayerOptions& options, Visitor& option) {
  describe_name(options, option);
  option("axis", options.axis, "the dimension of the channels: the last, -1");
  option("momentum", options.momentum, between(0, 1), "how much of the moving statistics is kept");
  option("epsilon", options.epsilon, positive, "what is added to the variance");
  option("center", options.center, "add beta");
  option("scale", options.scale, "multiply by gamma");
  option("trainable", options.trainable, "train, by the statistics of the batch");
  option("beta_initializer", options.beta_initializer, "of beta");
  option("gamma_initializer", options.gamma_initializer, "of gamma");
  option("moving_mean_initializer", options.moving_mean_initializer, "of the moving mean");
  option("moving_variance_initializer", options.moving_variance_initializer,
         "of the moving variance");
  option("beta_regularizer", options.beta_regularizer, "penalty of beta");
  option("gamma_regularizer", options.gamma_regularizer, "penalty of gamma");
}

SharedLayer BatchNormalization(BatchNormalizationLayerOptions options) {
  const std::string layer = called(options.name, "BatchNormalization");
  check_options(layer, options);
  if (options.axis != -1) {
    fail("{}: axis: expected -1, the last dimension, where the channels are, found {}", layer,
         options.axis);
  }
  return SharedLayer(std::make_shared<BatchNormalizationLayer>(std::move(options)));
}

void add_batch_normalization(Catalog& catalog) {
  catalog.add<SharedLayer, BatchNormalizationLayerOptions>("BatchNormalization", {},
                                                           BatchNormalization);
}

}  // namespace meshwork
