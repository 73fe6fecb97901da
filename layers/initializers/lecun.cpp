#include "layers/initializers/lecun.h"

#include "layers/initializers/variance_scaling.h"

namespace meshwork {
namespace {

constexpr VarianceScalingOptions lecun_uniform{
    .scale = 1, .mode = FanMode::in, .distribution = ScalingDistribution::uniform};
constexpr VarianceScalingOptions lecun_normal{
    .scale = 1, .mode = FanMode::in, .distribution = ScalingDistribution::truncated_normal};

}  // namespace

Initializer LecunUniform() {
  return variance_scaling_called("lecun_uniform", lecun_uniform);
}

Initializer LecunNormal() {
  return variance_scaling_called("lecun_normal", lecun_normal);
}

void add_lecun(Catalog& catalog) {
  enter_variance_scaling(catalog, "LecunUniform", "lecun_uniform", lecun_uniform);
  enter_variance_scaling(catalog, "LecunNormal", "lecun_normal", lecun_normal);
}

}  // namespace meshwork
