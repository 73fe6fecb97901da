// Adadelta.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/update.h"

namespace meshwork {

struct AdadeltaForm;

/// Operands: StepScalars, [factor], g, w, a, b, [narrowed w].
/// a = rho a + (1 - rho) g^2; d = g sqrt(b + epsilon) / sqrt(a + epsilon);
/// b = rho b + (1 - rho) d^2; w -= lr d.
struct AdadeltaSpec {
  std::int64_t count = 0;
  double rho = 0.95, epsilon = 1e-7;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;

  using Form = AdadeltaForm;
  [[nodiscard]] std::string text() const {
    return spec::sized("adadelta", {count}) + words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return 4; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

struct AdadeltaForm {
  const float* g;
  float *w, *a, *b;
  float rho, fresh, epsilon;

  AdadeltaForm(const AdadeltaSpec& spec, const UpdateOperands& in)
      : g(in.block(0)),
        w(in.block(1)),
        a(in.block(2)),
        b(in.block(3)),
        rho(static_cast<float>(spec.rho)),
        fresh(static_cast<float>(1.0 - spec.rho)),
        epsilon(static_cast<float>(spec.epsilon)) {}
  [[nodiscard]] static PlainRates step_rates(const AdadeltaSpec& spec, const UpdateOperands& in) {
    return {spec.decay, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const UpdateRates& rates) const {
    const float gradient = g[i] * rates.factor;
    const float decayed = w[i] - w[i] * rates.decay;
    const float squares = rho * a[i] + fresh * (gradient * gradient);
    const float steps = b[i];
    const float step = gradient * sqrtf(steps + epsilon) / sqrtf(squares + epsilon);
    a[i] = squares;
    b[i] = rho * steps + fresh * (step * step);
    w[i] = decayed - rates.rate * step;
  }
};

}  // namespace meshwork
