// Adamax.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/update.h"

namespace meshwork {

struct AdamaxForm;

/// Operands: StepScalars, [factor], g, w, m, u, [narrowed w].
/// m += (1 - beta_1)(g - m); u = max(beta_2 u, |g|); w -= lr / (1 - beta_1^t) m / (u + epsilon).
struct AdamaxSpec {
  std::int64_t count = 0;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;

  using Form = AdamaxForm;
  [[nodiscard]] std::string text() const {
    return spec::sized("adamax", {count}) + words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return 4; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

/// Plain rates with lr / (1 - beta_1^t) in the rate, in double.
class AdamaxRates {
 public:
  using Result = UpdateRates;
  AdamaxRates(const AdamaxSpec& spec, const UpdateOperands& in)
      : scalars_(in.scalars()), plain_(spec.decay, in), beta_1_(spec.beta_1) {}
  MESHWORK_HOST_DEVICE UpdateRates operator()() const {
    UpdateRates rates = plain_();
    const double t = static_cast<double>(scalars_->step) + 1.0;
    rates.rate = static_cast<float>(static_cast<double>(rates.rate) / (1.0 - pow(beta_1_, t)));
    return rates;
  }

 private:
  const StepScalars* scalars_;
  PlainRates plain_;
  double beta_1_;
};

struct AdamaxForm {
  const float* g;
  float *w, *m, *u;
  float new_1, keep_2, epsilon;

  AdamaxForm(const AdamaxSpec& spec, const UpdateOperands& in)
      : g(in.block(0)),
        w(in.block(1)),
        m(in.block(2)),
        u(in.block(3)),
        new_1(static_cast<float>(1.0 - spec.beta_1)),
        keep_2(static_cast<float>(spec.beta_2)),
        epsilon(static_cast<float>(spec.epsilon)) {}
  [[nodiscard]] static AdamaxRates step_rates(const AdamaxSpec& spec, const UpdateOperands& in) {
    return {spec, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const UpdateRates& rates) const {
    const float gradient = g[i] * rates.factor;
    const float decayed = w[i] - w[i] * rates.decay;
    const float mean = m[i] + (gradient - m[i]) * new_1;
    const float faded = keep_2 * u[i], size = fabsf(gradient);
    // Of a NaN and a number, the NaN.
    const float largest = (size <= faded) | (faded != faded) ? faded : size;
    m[i] = mean;
    u[i] = largest;
    w[i] = decayed - rates.rate * mean / (largest + epsilon);
  }
};

}  // namespace meshwork
