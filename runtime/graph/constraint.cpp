#include "runtime/graph/constraint.h"

#include <algorithm>

#include "collectives/error.h"

namespace meshwork {

const std::vector<NamedConstraint>& named_constraints() {
  using enum ConstraintKind;
  static const std::vector<NamedConstraint> all{
      {"NonNeg", "non_neg", {.kind = non_neg}},
      {"MaxNorm", "max_norm", {.kind = max_norm, .maximum = 2}},
      {"MinMaxNorm", "min_max_norm", {.kind = min_max_norm, .maximum = 1}},
      {"UnitNorm", "unit_norm", {.kind = unit_norm, .minimum = 1, .maximum = 1}},
  };
  return all;
}

std::pair<std::size_t, std::size_t> constrained_dimensions(const Constraint& constraint,
                                                           const Shape& shape) {
  const auto count = std::ssize(shape);
  std::vector<std::int64_t> sorted = constraint.axis.dimensions;
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
