// Constraints: what becomes of a variable after each update.
//
// A constraint has one or both of two rules, the first of which comes first:
//   elements   what becomes of each element by itself: a kernel over this rank's block.
//   norms      values are multiplied by factors, one for each norm over some dimensions. A kernel makes the factors of
//              the norms. Norms are those of the whole variable, however it is split.
//
// A set of constraints is open: a constraint is a function, and a class of the catalog. Those that
// Meshwork has are in layers/constraints, a page each, by Keras's formulas
// (keras.io/api/layers/constraints).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/exchange.h"
#include "runtime/device/kernel_spec.h"
#include "runtime/shape/shape.h"

namespace meshwork {

/// Neighbouring dimensions of a variable, from the end if negative.
struct ConstrainedAxis {
  static constexpr const char* expected = "a dimension, or a list of neighbouring ones";
  std::vector<std::int64_t> dimensions = {0};
  ConstrainedAxis() = default;
  ConstrainedAxis(std::int64_t one) : dimensions{one} {}
  ConstrainedAxis(std::initializer_list<std::int64_t> several) : dimensions(several) {}
  bool operator==(const ConstrainedAxis&) const = default;
};

struct NormRule {
  ConstrainedAxis axis = {};  // over which norms are taken
  /// The kernel that makes `count` factors. Operands: squared norms (count; float64), factors
  /// (count; float32).
  std::function<KernelSpec(std::int64_t count)> factors;
};

struct Constraint {
  std::string name = {};  // as configurations call it; "": none
  Settings settings = {};
  /// The kernel that writes what becomes of `count` elements over them, which its specification
  /// says it may (InPlace). Operands: values, values.
  std::function<KernelSpec(std::int64_t count)> elements = {};
  std::optional<NormRule> norms = {};
  /// Throws `Error` for a shape of whole variables that it is not for; null: it is for all.
  std::function<void(const Shape& shape)> check = {};

  [[nodiscard]] bool active() const { return elements || norms; }
  bool operator==(const Constraint& other) const {
    return name == other.name && settings == other.settings;
  }
};

/// Throws `Error` for a shape of whole variables that it is not for, or if a part of it is missing.
void check_constraint(const Constraint& constraint, const Shape& shape);

/// The first and the last dimension of a variable of `shape` over which norms are taken. Throws
/// `Error` for dimensions that it has not, or that are no neighbours.
[[nodiscard]] std::pair<std::size_t, std::size_t> constrained_dimensions(
    const ConstrainedAxis& axis, const Shape& shape);

}  // namespace meshwork
