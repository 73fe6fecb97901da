#include "layers/constraints/unit_norm.h"

#include "layers/constraints/norm_limits.h"
#include "runtime/graph/layer_config.h"

namespace meshwork {

template <class Visitor>
void describe(UnitNormOptions& options, Visitor& option) {
  option.about(about_norm_limits);
  option("axis", options.axis, about_axis);
}

Constraint UnitNorm(const UnitNormOptions& options) {
  check_options("UnitNorm", options);
  return {.name = "unit_norm",
          .settings = settings_of(options),
          .norms = norm_limits(options.axis, 1, 1)};
}

void add_unit_norm(Catalog& catalog) {
  catalog.add<Constraint, UnitNormOptions>("UnitNorm", {"unit_norm"}, UnitNorm);
}

}  // namespace meshwork
