#include "layers/group_normalization.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "layers/layer_of.h"
#include "runtime/graph/operations/bias.h"
#include "runtime/graph/operations/permute.h"
#include "runtime/graph/operations/reshape.h"
#include "runtime/graph/operations/row_normalization.h"
#include "runtime/graph/operations/scale.h"

namespace meshwork {
namespace {

// y * gamma + beta.
TensorId scaled_and_centred(LayerBuilder& builder, const GroupNormalizationOptions& of,
                            TensorId y) {
  const Shape channels{builder.shape(y).back()};
  if (of.scale) {
    const TensorId gamma = builder.variable("gamma", {.shape = channels,
                                                      .initializer = of.gamma_initializer,
                                                      .regularizer = of.gamma_regularizer,
                                                      .constraint = of.gamma_constraint});
    y = builder.apply(std::make_unique<ScaleOperation>(), {y, gamma});
  }
  if (of.center) {
    const TensorId beta = builder.variable("beta", {.shape = channels,
                                                    .initializer = of.beta_initializer,
                                                    .regularizer = of.beta_regularizer,
                                                    .constraint = of.beta_constraint});
    y = builder.apply(std::make_unique<BiasOperation>(), {y, beta});
  }
  return y;
}

// Groups come to stand before places: (batch, places..., groups, channels of one) becomes (batch,
// groups, places..., channels of one), whose dimensions behind the groups are normalized together.
TensorId normalized_groups(LayerBuilder& builder, TensorId x, std::int64_t groups, double epsilon) {
  const Shape shape = builder.shape(x);
  const std::int64_t channels = shape.back();
  const Shape sample(shape.begin() + 1, shape.end());
  Shape apart(sample.begin(), sample.end() - 1);
  apart.insert(apart.end(), {groups, channels / groups});
  const int places = static_cast<int>(sample.size()) - 1;
  std::vector<int> forward(places + 3), back(places + 3);
  std::iota(forward.begin(), forward.end(), 0);
  std::rotate(forward.begin() + 1, forward.begin() + 1 + places, forward.begin() + 2 + places);
  for (std::size_t d = 0; d < forward.size(); ++d) back[forward[d]] = static_cast<int>(d);

  TensorId y = builder.apply(std::make_unique<ReshapeOperation>(apart), {x});
  if (places > 0) y = builder.apply(std::make_unique<PermuteOperation>(forward), {y});
  y = builder.apply(std::make_unique<RowNormalizationOperation>(RowNormalizationOptions{
                        .row_dimensions = 2, .scale = false, .center = false, .epsilon = epsilon}),
                    {y});
  if (places > 0) y = builder.apply(std::make_unique<PermuteOperation>(back), {y});
  y = builder.apply(std::make_unique<ReshapeOperation>(sample), {y});
  builder.set_mask(y, builder.mask(x));  // groups stood before places
  return y;
}

void check_channels(const Shape& shape) {
  if (shape.size() < 2) {
    fail("expected an input of at least two dimensions, batch and channels, found shape {}",
         to_string(shape));
  }
}

}  // namespace

template <class Visitor>
void describe(GroupNormalizationOptions& options, Visitor& option) {
  option.about("groups of channels of each sample normalized by their mean and variance");
  describe_name(options, option);
  option("groups", options.groups, at_least(-1), "number of groups; -1: one per channel");
  option("axis", options.axis, "dimension of the channels; only the last, -1");
  option("epsilon", options.epsilon, positive, "added to the variance");
  option("center", options.center, "add beta");
  option("scale", options.scale, "multiply by gamma");
  describe_variable(option, "beta", "beta", options.beta_initializer, options.beta_regularizer,
                    options.beta_constraint);
  describe_variable(option, "gamma", "gamma", options.gamma_initializer, options.gamma_regularizer,
                    options.gamma_constraint);
  option("trainable", options.trainable, "train beta and gamma; false: keep them fixed");
}

SharedLayer GroupNormalization(GroupNormalizationOptions options) {
  if (options.axis != -1) {
    fail("{}: axis: expected -1, the last dimension, where the channels are, found {}",
         called(options.name, "GroupNormalization"), options.axis);
  }
  if (options.groups == 0) {
    fail("{}: groups: expected a positive integer, or -1 for a group a channel, found 0",
         called(options.name, "GroupNormalization"));
  }
  return layer_of(
      "GroupNormalization", std::move(options),
      [](const GroupNormalizationOptions& of, LayerBuilder& builder, TensorId x) {
        check_channels(builder.shape(x));
        const std::int64_t channels = builder.shape(x).back();
        const std::int64_t groups = of.groups == -1 ? channels : of.groups;
        if (channels % groups != 0) {
          fail("an input of shape {} has {} channels, which `groups` {} does not divide",
               to_string(builder.shape(x)), channels, groups);
        }
        return scaled_and_centred(builder, of, normalized_groups(builder, x, groups, of.epsilon));
      });
}

void add_group_normalization(Catalog& catalog) {
  catalog.add<SharedLayer, GroupNormalizationOptions>("GroupNormalization", {}, GroupNormalization);
}

}  // namespace meshwork
