// What constraints on norms share: with n the norm over the dimensions `axis`,
//
//     w *= d / (n + 1e-7)    d = rate * clip(n, minimum, maximum) + (1 - rate) * n
#pragma once

#include "runtime/device/kernels/norms.h"
#include "runtime/graph/constraint.h"

namespace meshwork {

[[nodiscard]] inline NormRule norm_limits(const ConstrainedAxis& axis, double minimum,
                                          double maximum, double rate = 1) {
  return {axis, [=](std::int64_t count) { return NormLimitsSpec{count, minimum, maximum, rate}; }};
}

/// How they are explained.
inline constexpr const char* about_norm_limits = "brings norms into an interval after each update";
inline constexpr const char* about_axis = "dimensions that a norm is taken over";

}  // namespace meshwork
