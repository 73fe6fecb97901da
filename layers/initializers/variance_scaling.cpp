#include "layers/initializers/variance_scaling.h"

#include <algorithm>
#include <cmath>

#include "collectives/error.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/make_initializer.h"

namespace meshwork {

namespace {

// Standard deviation of the standard normal distribution cut off at two standard deviations.
constexpr double truncated_deviation = 0.87962566103423978;

double fan_of(FanMode mode, const Fans& fans) {
  switch (mode) {
    case FanMode::in:
      return fans.in;
    case FanMode::out:
      return fans.out;
    case FanMode::average:
      return (fans.in + fans.out) / 2;
  }
  internal_error("an unknown fan");
}

ElementValue scaled_values(const VarianceScalingOptions& options,
                           const InitializedVariable& variable) {
  const double variance = options.scale / std::max(1.0, fan_of(options.mode, variable.fans));
  RandomNumbers numbers(variable.key);
  switch (options.distribution) {
    case ScalingDistribution::uniform: {
      const double limit = std::sqrt(3 * variance);
      return [minimum = -limit, spread = 2 * limit, numbers](std::int64_t index) mutable {
        return minimum + spread * numbers.uniform(index);
      };
    }
    case ScalingDistribution::normal:
      return [deviation = std::sqrt(variance), numbers](std::int64_t index) mutable {
        return deviation * numbers.normal(index);
      };
    case ScalingDistribution::truncated_normal:
      return [deviation = std::sqrt(variance) / truncated_deviation,
              numbers](std::int64_t index) mutable {
        return deviation * numbers.truncated_normal(index);
      };
  }
  internal_error("an unknown distribution");
}

/// Of one whose options are in its name.
struct NoScalingOptions {
  VarianceScalingOptions fixed;
};

}  // namespace

template <class Visitor>
void describe(VarianceScalingOptions& options, Visitor& option) {
  option.about("a distribution with the variance scale / fan");
  option("scale", options.scale, finite_positive, "variance times fan");
  option.choice("mode", options.mode,
                {{"fan_in", FanMode::in}, {"fan_out", FanMode::out}, {"fan_avg", FanMode::average}},
                "the fan: inputs of an output, outputs of an input, or their mean");
  option.choice("distribution", options.distribution,
                {{"truncated_normal", ScalingDistribution::truncated_normal},
                 {"untruncated_normal", ScalingDistribution::normal},
                 {"uniform", ScalingDistribution::uniform}},
                "the distribution");
}

template <class Visitor>
void describe(NoScalingOptions& options, Visitor& option) {
  option.about("VarianceScaling of " + words_of(settings_of(options.fixed)));
}

Initializer VarianceScaling(const VarianceScalingOptions& options) {
  return make_initializer(
      "variance_scaling", options,
      [options](const InitializedVariable& variable) { return scaled_values(options, variable); });
}

Initializer variance_scaling_called(const std::string& name,
                                    const VarianceScalingOptions& options) {
  return make_initializer(
      name, NoScalingOptions{options},
      [options](const InitializedVariable& variable) { return scaled_values(options, variable); });
}

void enter_variance_scaling(Catalog& catalog, const std::string& class_name,
                            const std::string& name, const VarianceScalingOptions& options) {
  catalog.add<Initializer, NoScalingOptions>(
      class_name, {name},
      [name](const NoScalingOptions& of) { return variance_scaling_called(name, of.fixed); },
      {options});
}

void add_variance_scaling(Catalog& catalog) {
  catalog.add<Initializer, VarianceScalingOptions>("VarianceScaling", {"variance_scaling"},
                                                   VarianceScaling);
}

}  // namespace meshwork
