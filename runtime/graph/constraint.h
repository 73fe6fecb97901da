// Constraints: what becomes of a variable after each update (keras.io/api/layers/constraints).
//
// NonNeg sets what is below 0 to 0. The others bring norms into an interval: with n the norm over
// the dimensions `axis`,
//
//     w *= d / (n + 1e-7)    d = rate * clip(n, minimum, maximum) + (1 - rate) * n
//
// MaxNorm has a minimum of 0 and a rate of 1, UnitNorm 1 for all three. Norms are those of the
// whole variable, however it is split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "runtime/shape/shape.h"

namespace meshwork {

enum class ConstraintKind : std::uint8_t { none, non_neg, max_norm, min_max_norm, unit_norm };

/// Neighbouring dimensions of a variable, from the end if negative.
struct ConstrainedAxis {
  static constexpr const char* expected = "a dimension, or a list of neighbouring ones";
  std::vector<std::int64_t> dimensions = {0};
  ConstrainedAxis() = default;
  ConstrainedAxis(std::int64_t one) : dimensions{one} {}
  ConstrainedAxis(std::initializer_list<std::int64_t> several) : dimensions(several) {}
  bool operator==(const ConstrainedAxis&) const = default;
};

struct Constraint {
  ConstraintKind kind = ConstraintKind::none;
  double minimum = 0, maximum = 0, rate = 1;  // of norms
  ConstrainedAxis axis = {};

  [[nodiscard]] bool active() const { return kind != ConstraintKind::none; }
  [[nodiscard]] bool of_norms() const { return active() && kind != ConstraintKind::non_neg; }
  bool operator==(const Constraint&) const = default;
};

struct NamedConstraint {
  std::string class_name;  // "MaxNorm"
  std::string name;        // "max_norm"
  Constraint constraint;
};
[[nodiscard]] const std::vector<NamedConstraint>& named_constraints();

/// The first and the last dimension of a variable of `shape` over which norms are taken. Throws
/// `Error` for dimensions that it has not, or that are no neighbours.
[[nodiscard]] std::pair<std::size_t, std::size_t> constrained_dimensions(
    const Constraint& constraint, const Shape& shape);

}  // namespace meshwork
