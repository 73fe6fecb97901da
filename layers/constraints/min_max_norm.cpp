#include "layers/constraints/min_max_norm.h"

#include "layers/constraints/norm_limits.h"
#include "runtime/graph/layer_config.h"

namespace meshwork {

template <class Visitor>
void describe(MinMaxNormOptions& options, Visitor& option) {
  option.about(about_norm_limits);
  option("min_value", options.min_value, finite_not_negative, "smallest norm");
  option("max_value", options.max_value, finite_not_negative, "largest norm");
  option("rate", options.rate, between(0, 1), "share of the way into the interval");
  option("axis", options.axis, about_axis);
}

Constraint MinMaxNorm(const MinMaxNormOptions& options) {
  check_options("MinMaxNorm", options);
  return {.name = "min_max_norm",
          .settings = settings_of(options),
          .norms = norm_limits(options.axis, options.min_value, options.max_value, options.rate)};
}

void add_min_max_norm(Catalog& catalog) {
  catalog.add<Constraint, MinMaxNormOptions>("MinMaxNorm", {"min_max_norm"}, MinMaxNorm);
}

}  // namespace meshwork
