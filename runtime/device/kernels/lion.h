// Lion.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/update.h"

namespace meshwork {

struct LionForm;

/// Operands: StepScalars, [factor], g, w, m, [narrowed w].
/// w -= lr sign(beta_1 m + (1 - beta_1) g); m = beta_2 m + (1 - beta_2) g.
struct LionSpec {
  std::int64_t count = 0;
  double beta_1 = 0.9, beta_2 = 0.99;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;

  using Form = LionForm;
  [[nodiscard]] std::string text() const {
    return spec::sized("lion", {count}) + words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return 3; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

struct LionForm {
  const float* g;
  float *w, *m;
  float keep_1, new_1, keep_2, new_2;

  LionForm(const LionSpec& spec, const UpdateOperands& in)
      : g(in.block(0)),
        w(in.block(1)),
        m(in.block(2)),
        keep_1(static_cast<float>(spec.beta_1)),
        new_1(static_cast<float>(1.0 - spec.beta_1)),
        keep_2(static_cast<float>(spec.beta_2)),
        new_2(static_cast<float>(1.0 - spec.beta_2)) {}
  [[nodiscard]] static PlainRates step_rates(const LionSpec& spec, const UpdateOperands& in) {
    return {spec.decay, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const UpdateRates& rates) const {
    const float gradient = g[i] * rates.factor;
    const float decayed = w[i] - w[i] * rates.decay;
    const float direction = m[i] * keep_1 + gradient * new_1;
    // A 0 and a NaN are their own sign.
    const float sign = direction > 0.0f ? 1.0f : (direction < 0.0f ? -1.0f : direction);
    m[i] = m[i] * keep_2 + gradient * new_2;
    w[i] = decayed - rates.rate * sign;
  }
};

}  // namespace meshwork
