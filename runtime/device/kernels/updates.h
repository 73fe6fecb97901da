// What is done to gradients, and the optimizers' updates.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device/kernels/step_scalars.h"

namespace meshwork {

/// s (float64 scalar) = sum of |x|^power (power 1 or 2), in a fixed order. Operands: x, s.
struct PowerSumSpec {
  std::int64_t count = 0;
  int power = 2;
};
/// s (float64 scalar) = sum of factors[i] * x[i], over the `factors.size()` float64 scalars x.
/// Operands: x, s.
struct WeightedSumSpec {
  std::vector<double> factors;
};
/// dw += l1 * sign(w) + 2 * l2 * w. Operands: w, dw.
struct PenaltyGradientSpec {
  std::int64_t count = 0;
  float l1 = 0, l2 = 0;
};
/// f (float32 scalar) from s (float64 scalar, the squared norm n^2): by norm, c / max(n, c);
/// globally, c * min(1 / n, 1 / c). Operands: s, f.
struct ClipFactorSpec {
  float clip = 1;
  bool global = false;
};
/// x *= f (float32 scalar in memory). Operands: f, x.
struct ScaleBySpec {
  std::int64_t count = 0;
};
/// x = min(max(x, -limit), limit). Operands: x.
struct ClampSpec {
  std::int64_t count = 0;
  float limit = 1;
};

// One fused pass over a flat block of parameters w and their gradients g. All: first w -= w * decay
// * lr where decay is not 0; then the formula below, Keras's (keras/src/optimizers), with t = step
// + 1, g read as g * factor if `scaled` (factor: float32 scalar in memory). Rates are doubles,
// because 1 - beta is rounded to float32 once: 1 - 0.999f would be off by one part in 80 000. If
// `narrows`, the new w is stored in bfloat16 too, as NarrowSpec does it, in the last operand.

/// Operands: StepScalars, [factor], g, w, [m if momentum is not 0], [narrowed w].
/// w -= lr g; with momentum m = momentum m - lr g, w += m; Nesterov's w += momentum m - lr g.
struct SgdSpec {
  std::int64_t count = 0;
  float momentum = 0;
  bool nesterov = false;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;
};
/// Operands: StepScalars, [factor], g, w, m, v, [running maximum of v if amsgrad], [narrowed w].
/// m += (1 - beta_1)(g - m); v += (1 - beta_2)(g^2 - v); w -= a m / (sqrt(v, or its maximum) +
/// epsilon), a = lr sqrt(1 - beta_2^t) / (1 - beta_1^t).
struct AdamSpec {
  std::int64_t count = 0;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
  bool amsgrad = false;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;
};
/// Operands: StepScalars, [factor], g, w, v, [m if momentum is not 0], [mean of g if centered],
/// [narrowed w].
/// v = rho v + (1 - rho) g^2; d = v, less mean^2 if centered; u = lr g / sqrt(d + epsilon);
/// with momentum m = momentum m + u, w -= m; else w -= u.
struct RmspropSpec {
  std::int64_t count = 0;
  double rho = 0.9, momentum = 0, epsilon = 1e-7;
  bool centered = false;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;
};

}  // namespace meshwork
