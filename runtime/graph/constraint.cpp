#include "runtime/graph/constraint.h"

#include <algorithm>

#include "collectives/error.h"

namespace meshwork {

void check_constraint(const Constraint& constraint, const Shape& shape) {
  if (constraint.active() && constraint.name.empty()) fail("a constraint has no name");
  if (constraint.elements) {
    const KernelSpec kernel = constraint.elements(element_count(shape));
    if (!std::ranges::count(kernel.in_place().inputs, 0)) {
      fail(
          "the constraint \"{}\": its kernel \"{}\" does not say by `in_place` that it may write "
          "over what it reads",
          constraint.name, kernel.text());
    }
  }
  if (constraint.check) constraint.check(shape);
  if (!constraint.norms) return;
  if (!constraint.norms->factors) {
    fail("the constraint \"{}\" has norms without factors", constraint.name);
  }
  (void)constrained_dimensions(constraint.norms->axis, shape);
}

std::pair<std::size_t, std::size_t> constrained_dimensions(const ConstrainedAxis& axis,
                                                           const Shape& shape) {
  const auto count = std::ssize(shape);
  std::vector<std::int64_t> sorted = axis.dimensions;
  for (std::int64_t& dimension : sorted) {
    if (dimension < -count || dimension >= count) {
      fail("axis: a variable of shape {} has no dimension {}", to_string(shape), dimension);
    }
    if (dimension < 0) dimension += count;
  }
  std::ranges::sort(sorted);
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i] != sorted[i - 1] + 1) {
      fail("axis: expected neighbouring dimensions, found {} and {}", sorted[i - 1], sorted[i]);
    }
  }
  if (sorted.empty()) fail("axis: expected one dimension at least");
  return {static_cast<std::size_t>(sorted.front()), static_cast<std::size_t>(sorted.back())};
}

}  // namespace meshwork
