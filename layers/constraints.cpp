// Constraints as configurations name them, with Keras's options.
#include <functional>

#include "runtime/graph/layer_config.h"

namespace meshwork {

template <class Visitor>
void describe(Constraint& options, Visitor& option) {
  if (!options.of_norms()) {
    option.about("sets what is below 0 to 0 after each update");
    return;
  }
  option.about("brings norms into an interval after each update");
  if (options.kind == ConstraintKind::min_max_norm) {
    option("min_value", options.minimum, finite_not_negative, "smallest norm");
  }
  if (options.kind != ConstraintKind::unit_norm) {
    option("max_value", options.maximum, finite_not_negative, "largest norm");
  }
  if (options.kind == ConstraintKind::min_max_norm) {
    option("rate", options.rate, between(0, 1), "share of the way into the interval");
  }
  option("axis", options.axis, "dimensions that a norm is taken over");
}

void add_constraints(Catalog& catalog) {
  for (const NamedConstraint& one : named_constraints()) {
    catalog.add<Constraint, Constraint>(one.class_name, {one.name}, std::identity(),
                                        one.constraint);
  }
}

}  // namespace meshwork
