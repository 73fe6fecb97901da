// VarianceScaling: values of a distribution whose variance is scale / fan, of a fan that layers or shapes give.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/config/catalog.h"
#include "runtime/graph/initializer.h"

namespace meshwork {

enum class FanMode : std::uint8_t { in, out, average };
enum class ScalingDistribution : std::uint8_t { uniform, truncated_normal, normal };

struct VarianceScalingOptions {
  double scale = 1;
  FanMode mode = FanMode::in;
  ScalingDistribution distribution = ScalingDistribution::truncated_normal;
};

[[nodiscard]] Initializer VarianceScaling(const VarianceScalingOptions& options = {});

/// One that is called `name`, whose options that name stands for.
[[nodiscard]] Initializer variance_scaling_called(const std::string& name,
                                                  const VarianceScalingOptions& options);
/// Enters it.
void enter_variance_scaling(Catalog& catalog, const std::string& class_name,
                            const std::string& name, const VarianceScalingOptions& options);

}  // namespace meshwork
