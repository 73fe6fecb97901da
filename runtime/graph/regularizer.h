// Penalties on variables, which join the loss.
//
// A regularizer charges in one of two ways, or in both:
//   of elements    each element by itself. A kernel sums up this rank's block, another adds the slopes to the gradient.
//                  How the variable is split does not matter.
//   of the whole   each rank gathers the whole variable and works out all of it, once a step. Kernels give terms, a
//                  sum of these, and the derivative.
// The penalty is the same on every mesh: each part of a variable is counted by one rank.
//
// A set of regularizers is open: a regularizer is a function, and a class of the catalog. Those
// that Meshwork has are in layers/regularizers, a page each. `l1_l2.cpp` charges elements,
// `orthogonal_regularizer.cpp` the whole.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/element_type.h"
#include "collectives/exchange.h"
#include "runtime/device/kernel_spec.h"
#include "runtime/device/program.h"
#include "runtime/shape/shape.h"

namespace meshwork {

/// `factor` times a sum over the elements.
struct PenaltySum {
  double factor = 0;
  /// The kernel that sums up `count` elements. Operands: values, s (float64 scalar).
  std::function<KernelSpec(std::int64_t count)> kernel;
};

/// Where kernels on a whole variable are booked.
class WholeBooking {
 public:
  virtual ~WholeBooking() = default;
  [[nodiscard]] virtual Operand scratch(std::int64_t count,
                                        ElementType type = ElementType::float32) = 0;
  virtual void emit(const KernelSpec& spec, std::vector<Operand> operands) = 0;
};

/// `factor` times the sum that the kernel `sum` makes of `terms`. Operands: terms, s (float64
/// scalar).
struct WholePenalty {
  double factor = 0;
  KernelSpec sum;
  Operand terms;
  std::vector<Operand> kept = {};  // what the derivative takes beside the terms
};

struct WholeRule {
  /// Books the terms of `values`, the variable of this shape, which it does not write.
  std::function<WholePenalty(WholeBooking& booking, const Shape& shape, const Operand& values)>
      penalty;
  /// Books the derivative of the penalty by the whole variable. Gives where it stands.
  std::function<Operand(WholeBooking& booking, const Shape& shape, const WholePenalty& penalty)>
      derivative;
};

struct Regularizer {
  std::string name = {};  // as configurations call it; "": none
  Settings settings = {};
  std::vector<PenaltySum> sums = {};
  /// The kernel that adds to the gradient the slopes of all sums, with their factors. Operands:
  /// values, gradient.
  std::function<KernelSpec(std::int64_t count)> slope = {};
  std::optional<WholeRule> whole = {};
  /// Throws `Error` for a shape of whole variables that it is not for; null: it is for all.
  std::function<void(const Shape& shape)> check = {};

  [[nodiscard]] bool active() const { return !sums.empty() || whole.has_value(); }
  bool operator==(const Regularizer& other) const {
    return name == other.name && settings == other.settings;
  }
};

/// Throws `Error` for a shape of whole variables that it is not for, or if a part of it is missing.
void check_regularizer(const Regularizer& regularizer, const Shape& shape);

}  // namespace meshwork
