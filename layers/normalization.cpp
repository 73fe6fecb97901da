#include "layers/normalization.h"

#include <memory>
#include <utility>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "layers/initializers/listed.h"
#include "layers/layer_of.h"
#include "runtime/graph/adapts.h"
#include "runtime/graph/operations/batch_normalization.h"
#include "runtime/graph/operations/denormalization.h"

namespace meshwork {

void from_config(const ConfigNode& node, ChannelValues& of_channels) {
  of_channels = node.is_sequence() ? ChannelValues(node.as<std::vector<double>>(any_finite))
                                   : ChannelValues(node.as<double>(any_finite));
}

std::string to_text(const ChannelValues& of_channels) {
  const auto& values = of_channels.values;
  return values.size() == 1 ? fmt::format("{}", values.front())
                            : fmt::format("[{}]", joined_text(values, ", "));
}

template <class Visitor>
void describe(NormalizationOptions& options, Visitor& option) {
  option.about("each channel normalized by mean and variance of the training data");
  describe_name(options, option);
  option("axis", options.axis, "dimension of the channels; only the last, -1");
  option("mean", options.mean, any_finite, "mean of the channels; none: that of the training data");
  option("variance", options.variance, finite_positive,
         "variance of the channels; none: that of the training data");
  option("invert", options.invert, "undo the normalization instead");
}

namespace {

class NormalizationLayer final : public Layer, public AdaptsToData {
 public:
  explicit NormalizationLayer(NormalizationOptions options)
      : Layer(options.name), options_(std::move(options)) {}

  std::string class_name() const override { return "Normalization"; }
  bool adapts() const override { return !options_.mean; }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    if (inputs.size() != 1) fail("expected one input, found {}", inputs.size());
    const Shape& shape = builder.shape(inputs.front());
    if (shape.size() < 2) {
      fail("expected an input of at least two dimensions, batch and channels, found shape {}",
           to_string(shape));
    }
    const std::int64_t channels = shape.back();
    const auto statistic = [&](const char* name, const ChannelValues& given) {
      std::vector<double> values = given.values;
      if (values.size() == 1) values.resize(static_cast<std::size_t>(channels), values.front());
      if (std::ssize(values) != channels) {
        fail("{}: expected a number, or one for each of {} channels, found {}", name, channels,
             values.size());
      }
      return builder.variable(
          name,
          {.shape = {channels}, .initializer = Listed(std::move(values)), .trainable = false});
    };
    const TensorId mean = statistic("mean", options_.mean.value_or(0.0));
    const TensorId variance = statistic("variance", options_.variance.value_or(1.0));
    // Keras's files have it beside the two, for models of older versions.
    if (adapts()) (void)builder.variable("count", {.shape = {}, .trainable = false});
    if (options_.invert) {
      return builder.apply(std::make_unique<DenormalizationOperation>(),
                           {inputs.front(), mean, variance});
    }
    return builder.apply(std::make_unique<BatchNormalizationOperation>(BatchNormalizationOptions{
                             .scale = false, .center = false, .epsilon = 1e-14, .frozen = true}),
                         {inputs.front(), mean, variance});
  }

 private:
  NormalizationOptions options_;
};

}  // namespace

SharedLayer Normalization(NormalizationOptions options) {
  const std::string owner = called(options.name, "Normalization");
  check_options(owner, options);
  if (options.axis != -1) {
    fail("{}: axis: expected -1, the last dimension, where the channels are, found {}", owner,
         options.axis);
  }
  if (options.mean.has_value() != options.variance.has_value()) {
    fail("{}: give both mean and variance, or neither: then they are those of the training data",
         owner);
  }
  return SharedLayer(std::make_shared<NormalizationLayer>(std::move(options)));
}

void add_normalization(Catalog& catalog) {
  catalog.add<SharedLayer, NormalizationOptions>("Normalization", {}, Normalization);
}

}  // namespace meshwork
