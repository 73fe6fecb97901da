#include "layers/constraints/max_norm.h"

#include "layers/constraints/norm_limits.h"
#include "runtime/graph/layer_config.h"

namespace meshwork {

template <class Visitor>
void describe(MaxNormOptions& options, Visitor& option) {
  option.about(about_norm_limits);
  option("max_value", options.max_value, finite_not_negative, "largest norm");
  option("axis", options.axis, about_axis);
}

Constraint MaxNorm(const MaxNormOptions& options) {
  check_options("MaxNorm", options);
  return {.name = "max_norm",
          .settings = settings_of(options),
          .norms = norm_limits(options.axis, 0, options.max_value)};
}

void add_max_norm(Catalog& catalog) {
  catalog.add<Constraint, MaxNormOptions>("MaxNorm", {"max_norm"}, MaxNorm);
}

}  // namespace meshwork
