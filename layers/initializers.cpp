// Initializers as configurations name them, with Keras's options.
#include <functional>

#include "runtime/graph/layer_config.h"

namespace meshwork {
namespace {

struct NoOptions {};

template <class Visitor>
void describe(NoOptions&, Visitor&) {}

}  // namespace

template <class Visitor>
void describe(Initializer& options, Visitor& option) {
  switch (options.kind) {
    case InitializerKind::zeros:
    case InitializerKind::ones:
      break;
    case InitializerKind::constant:
      option("value", options.value, finite, "of every element");
      break;
    case InitializerKind::random_uniform:
      option("minval", options.minimum, finite, "the least value");
      option("maxval", options.maximum, finite, "the largest");
      break;
    case InitializerKind::random_normal:
    case InitializerKind::truncated_normal:
      option("mean", options.mean, finite, "of the values");
      option("stddev", options.standard_deviation, finite_not_negative,
             "their standard deviation, before any are cut off");
      break;
    case InitializerKind::variance_scaling:
      option("scale", options.scale, finite_positive, "the variance times the fan");
      option.choice(
          "mode", options.fan,
          {{"fan_in", FanMode::in}, {"fan_out", FanMode::out}, {"fan_avg", FanMode::average}},
          "which fan the variance is divided by");
      option.choice("distribution", options.distribution,
                    {{"truncated_normal", ScalingDistribution::truncated_normal},
                     {"untruncated_normal", ScalingDistribution::normal},
                     {"uniform", ScalingDistribution::uniform}},
                    "of the values");
  }
}

void add_initializers(Catalog& catalog) {
  for (const NamedInitializer& one : named_initializers()) {
    if (one.fixed) {
      catalog.add<Initializer, NoOptions>(
          one.class_name, {one.name},
          [initializer = one.initializer](const NoOptions&) { return initializer; });
    } else {
      catalog.add<Initializer, Initializer>(one.class_name, {one.name}, std::identity(),
                                            one.initializer);
    }
  }
}

}  // namespace meshwork
