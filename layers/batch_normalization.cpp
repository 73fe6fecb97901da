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
  option.about("each channel normalized by mean and variance of the global batch");
  describe_name(options, option);
  option("axis", options.axis, "dimension of the channels; only the last, -1");
  option("momentum", options.momentum, between(0, 1), "share of the moving statistics kept a step");
  option("epsilon", options.epsilon, positive, "added to the variance");
  option("center", options.center, "add beta");
  option("scale", options.scale, "multiply by gamma");
  option("trainable", options.trainable, "train beta and gamma and use the batch's statistics");
  option("beta_initializer", options.beta_initializer, "initial beta");
  option("gamma_initializer", options.gamma_initializer, "initial gamma");
  option("moving_mean_initializer", options.moving_mean_initializer, "initial moving mean");
  option("moving_variance_initializer", options.moving_variance_initializer,
         "initial moving variance");
  option("beta_regularizer", options.beta_regularizer, "penalty on beta");
  option("gamma_regularizer", options.gamma_regularizer, "penalty on gamma");
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
