// Initializers as configurations name them, with Keras's options.
#include <functional>
#include <string>
#include <vector>

#include "runtime/graph/layer_config.h"

namespace meshwork {
namespace {

/// One whose options are in its name.
struct FixedInitializer {
  Initializer initializer;
};

}  // namespace

template <class Visitor>
void describe(Initializer& options, Visitor& option) {
  switch (options.kind) {
    case InitializerKind::zeros:
      option.about("0 everywhere");
      break;
    case InitializerKind::ones:
      option.about("1 everywhere");
      break;
    case InitializerKind::constant:
      option.about("one value everywhere");
      option("value", options.value, finite, "the value");
      break;
    case InitializerKind::random_uniform:
      option.about("a uniform distribution");
      option("minval", options.minimum, finite, "lower end");
      option("maxval", options.maximum, finite, "upper end");
      break;
    case InitializerKind::random_normal:
    case InitializerKind::truncated_normal:
      option.about(options.kind == InitializerKind::random_normal
                       ? "a normal distribution"
                       : "a normal distribution, cut off at two standard deviations");
      option("mean", options.mean, finite, "mean");
      option("stddev", options.standard_deviation, finite_not_negative,
             "standard deviation, before values are cut off");
      break;
    case InitializerKind::identity:
    case InitializerKind::orthogonal:
      option.about(options.kind == InitializerKind::identity
                       ? "gain on the diagonal of a matrix, else 0"
                       : "a random matrix whose columns, or rows, are orthogonal");
      option("gain", options.gain, finite, "factor of the matrix");
      break;
    case InitializerKind::variance_scaling:
      option.about("a distribution with the variance scale / fan");
      option("scale", options.scale, finite_positive, "variance times fan");
      option.choice(
          "mode", options.fan,
          {{"fan_in", FanMode::in}, {"fan_out", FanMode::out}, {"fan_avg", FanMode::average}},
          "the fan: inputs of an output, outputs of an input, or their mean");
      option.choice("distribution", options.distribution,
                    {{"truncated_normal", ScalingDistribution::truncated_normal},
                     {"untruncated_normal", ScalingDistribution::normal},
                     {"uniform", ScalingDistribution::uniform}},
                    "the distribution");
      break;
    case InitializerKind::listed:
      break;  // no configuration names it
  }
}

template <class Visitor>
void describe(FixedInitializer& options, Visitor& option) {
  option.about("VarianceScaling of " + words_of(settings_of(options.initializer)));
}

void add_initializers(Catalog& catalog) {
  for (const NamedInitializer& one : named_initializers()) {
    if (one.fixed) {
      catalog.add<Initializer, FixedInitializer>(
          one.class_name, {one.name},
          [](const FixedInitializer& fixed) { return fixed.initializer; }, {one.initializer});
    } else {
      std::vector<std::string> names{one.name};
      if (one.name.starts_with("random_")) names.push_back(one.name.substr(7));  // Keras's too
      catalog.add<Initializer, Initializer>(one.class_name, names, std::identity(),
                                            one.initializer);
    }
  }
}

}  // namespace meshwork
