// What is done to gradients before the optimizer's update: norms, clipping, penalties.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// s (float64 scalar) = sum of |x|^power (power 1 or 2), in a fixed order. Operands: x, s.
struct PowerSumSpec {
  std::int64_t count = 0;
  int power = 2;
  [[nodiscard]] std::string text() const {
    return spec::sized(power == 1 ? "sum of magnitudes" : "sum of squares", {count});
  }
  [[nodiscard]] KernelWork work() const { return spec::passes(1, count); }
  void check() const {
    spec::require(power == 1 || power == 2, "a sum of powers " + std::to_string(power),
                  "is neither of magnitudes nor of squares");
  }
};
/// s (float64 scalar) = sum of factors[i] * x[i], over the `factors.size()` float64 scalars x.
/// Operands: x, s.
struct WeightedSumSpec {
  std::vector<double> factors;
  [[nodiscard]] std::string text() const {
    return "weighted sum " + std::to_string(factors.size());
  }
  [[nodiscard]] KernelWork work() const {
    return {0, spec::f64 * static_cast<double>(factors.size() + 1)};
  }
};
/// dw += l1 * sign(w) + 2 * l2 * w. Operands: w, dw.
struct PenaltyGradientSpec {
  std::int64_t count = 0;
  float l1 = 0, l2 = 0;
  [[nodiscard]] std::string text() const { return spec::sized("penalty gradient", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
};
/// f (float32 scalar) from s (float64 scalar, the squared norm n^2): by norm, c / max(n, c);
/// globally, c * min(1 / n, 1 / c). Operands: s, f.
struct ClipFactorSpec {
  float clip = 1;
  bool global = false;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const { return {0, spec::f32 + spec::f64}; }
};
/// f (float32 scalar) = n / d, of two squared norms n^2 and d^2 (float64 scalars); 1 where either is 0.
/// Operands: n^2, d^2, f.
struct NormRatioSpec {
  [[nodiscard]] std::string text() const { return "norm ratio"; }
  [[nodiscard]] KernelWork work() const { return {0, spec::f32 + 2 * spec::f64}; }
};
/// f (count; float32) = d / (n + 1e-7) of squared norms n^2 (count; float64), with d = rate *
/// clip(n, minimum, maximum) + (1 - rate) * n. Operands: n^2, f.
struct NormLimitsSpec {
  std::int64_t count = 0;
  double minimum = 0, maximum = 1, rate = 1;
  [[nodiscard]] std::string text() const { return spec::sized("norm limits", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
};
/// x (side, side) becomes 0 in its diagonal. Operands: x.
struct ZeroDiagonalSpec {
  std::int64_t side = 0;
  [[nodiscard]] std::string text() const { return spec::sized("zero diagonal", {side}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(1, side); }
};
/// x *= f (float32 scalar in memory). Operands: f, x.
struct ScaleBySpec {
  std::int64_t count = 0;
  [[nodiscard]] std::string text() const { return spec::sized("scale", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, count); }
};
/// x = min(max(x, -limit), limit). Operands: x.
struct ClampSpec {
  std::int64_t count = 0;
  float limit = 1;
  [[nodiscard]] std::string text() const { return spec::sized("clamp", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, count); }
};

}  // namespace meshwork
