#include "layers/initializers/glorot.h"

#include "layers/initializers/variance_scaling.h"

namespace meshwork {
namespace {

constexpr VarianceScalingOptions glorot_uniform{
    .scale = 1, .mode = FanMode::average, .distribution = ScalingDistribution::uniform};
constexpr VarianceScalingOptions glorot_normal{
    .scale = 1, .mode = FanMode::average, .distribution = ScalingDistribution::truncated_normal};

}  // namespace

Initializer GlorotUniform() {
  return variance_scaling_called("glorot_uniform", glorot_uniform);
}

Initializer GlorotNormal() {
  return variance_scaling_called("glorot_normal", glorot_normal);
}

void add_glorot(Catalog& catalog) {
  enter_variance_scaling(catalog, "GlorotUniform", "glorot_uniform", glorot_uniform);
  enter_variance_scaling(catalog, "GlorotNormal", "glorot_normal", glorot_normal);
}

}  // namespace meshwork
