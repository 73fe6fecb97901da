// Epilogue: the bias, the activation and the dropout behind a sum, done by the operation that makes
// the sum.
//
// A layer is a product, a bias and an activation, each an operation with a simple rule; a device
// does them best as one. An operation that can do more behind its own work keeps an epilogue, which
// is a value (`Fusible::epilogue`). One that is nothing else says so, and `then` joins the two. So
// neither has to know the class of the other, and operations of users take part.
//
// The gradient of what stands before the activation is taken from the output, so only activations
// that can be differentiated from their value belong here. Backward has its own part of the idea:
// who makes the gradient of a value can take the derivative of the activation in front of it
// (rewrites/hand_over_derivatives.cpp), and then it comes here already multiplied. Of dropout only
// that behind relu belongs here: what it gives is 0 wherever either gradient is, and backward needs
// neither random numbers nor what relu gave, whose place is taken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/device/kernels/activation.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/program.h"
#include "runtime/shape/shape.h"

namespace meshwork {

class Lowering;

struct Epilogue {
  bool bias = false;  // added along the last dimension
  Activation activation = Activation::linear;
  float dropout = 0;  // the rate

  [[nodiscard]] bool empty() const { return *this == Epilogue{}; }
  /// This one with `next` behind; nothing if the two are none. Who takes it up does all of it, the
  /// dropout by `drop`; one that cannot stays alone (operations/batch_normalization.cpp).
  [[nodiscard]] std::optional<Epilogue> then(const Epilogue& next) const;

  /// The activation, if it ends with that (Fusible::ends_in).
  [[nodiscard]] Activation ends_in() const { return dropout > 0 ? Activation::linear : activation; }
  /// "product+bias+relu", behind "product".
  [[nodiscard]] std::string behind(std::string_view kind) const;
  /// Throws `Error` unless `found`, the bias, fits an output of shape `output`.
  static void check_bias(const Shape& output, const Shape& found);
  /// Throws an internal error, naming `what`, for an activation that does not belong here.
  void check(std::string_view what) const;

  /// In forward, behind the activation: the dropout, in place on the output.
  void drop(Lowering& lowering) const;
  /// The kernel that takes the gradient of the output, of `count` elements, to that of what stands
  /// before the activation; `value` is the output.
  [[nodiscard]] ActivationGradientSpec gradient(std::int64_t count) const;
  /// In backward: whether the gradient of the output is that already.
  [[nodiscard]] bool gradient_is_before(const Lowering& lowering) const;
  /// In backward: the gradient of what stands before the activation, of `count` elements on this
  /// rank. Emits what it takes, if it is not there.
  [[nodiscard]] Operand gradient_before(Lowering& lowering, std::int64_t count) const;

  bool operator==(const Epilogue&) const = default;
};

}  // namespace meshwork
