#include "layers/initializers/he.h"

#include "layers/initializers/variance_scaling.h"

namespace meshwork {
namespace {

constexpr VarianceScalingOptions he_uniform{
    .scale = 2, .mode = FanMode::in, .distribution = ScalingDistribution::uniform};
constexpr VarianceScalingOptions he_normal{
    .scale = 2, .mode = FanMode::in, .distribution = ScalingDistribution::truncated_normal};

}  // namespace

Initializer HeUniform() {
  return variance_scaling_called("he_uniform", he_uniform);
}

Initializer HeNormal() {
  return variance_scaling_called("he_normal", he_normal);
}

void add_he(Catalog& catalog) {
  enter_variance_scaling(catalog, "HeUniform", "he_uniform", he_uniform);
  enter_variance_scaling(catalog, "HeNormal", "he_normal", he_normal);
}

}  // namespace meshwork
