// Adafactor: the running mean of squares, which is factored then; the steps it gives; and their
// factors and rates.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/update.h"

namespace meshwork {

struct AdafactorForm;

/// Operands: StepScalars, [factor], g, w, v. w is only decayed; g becomes g * factor; and
/// v = beta v + (1 - beta) (g^2 + epsilon), with beta = 1 - t^beta_decay.
struct AdafactorSpec {
  std::int64_t count = 0;
  double beta_decay = -0.8, epsilon = 1e-30;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;  // never: the values are not new yet

  using Form = AdafactorForm;
  [[nodiscard]] std::string text() const {
    return spec::sized("adafactor", {count}) + words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return 3; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

struct AdafactorStep {
  float kept, fresh;    // beta and 1 - beta
  float factor, decay;  // as in UpdateRates
};

/// In double, t the number of the step, counted from 1.
class AdafactorRates {
 public:
  using Result = AdafactorStep;
  AdafactorRates(const AdafactorSpec& spec, const UpdateOperands& in)
      : scalars_(in.scalars()), plain_(spec.decay, in), beta_decay_(spec.beta_decay) {}
  MESHWORK_HOST_DEVICE AdafactorStep operator()() const {
    const UpdateRates plain = plain_();
    const double fresh = pow(static_cast<double>(scalars_->step) + 1.0, beta_decay_);
    return {static_cast<float>(1.0 - fresh), static_cast<float>(fresh), plain.factor, plain.decay};
  }

 private:
  const StepScalars* scalars_;
  PlainRates plain_;
  double beta_decay_;
};

struct AdafactorForm {
  float *g, *w, *v;
  float epsilon;

  AdafactorForm(const AdafactorSpec& spec, const UpdateOperands& in)
      : g(in.block(0)), w(in.block(1)), v(in.block(2)), epsilon(static_cast<float>(spec.epsilon)) {}
  [[nodiscard]] static AdafactorRates step_rates(const AdafactorSpec& spec,
                                                 const UpdateOperands& in) {
    return {spec, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const AdafactorStep& rates) const {
    const float gradient = g[i] * rates.factor;
    g[i] = gradient;
    w[i] = w[i] - w[i] * rates.decay;
    v[i] = v[i] * rates.kept + (gradient * gradient + epsilon) * rates.fresh;
  }
};

struct SlowingForm;

/// A step whose rate is 1 / sqrt(t) at most: w -= min(lr, 1 / sqrt(t)) g.
/// Operands: StepScalars, [factor], g, w, [narrowed w].
struct SlowingSpec {
  std::int64_t count = 0;
  float decay = 0;  // never: the running mean's step took it off
  bool scaled = false;
  bool narrows = false;

  using Form = SlowingForm;
  [[nodiscard]] std::string text() const {
    return spec::sized("slowing step", {count}) + words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return 2; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

class SlowingRates {
 public:
  using Result = UpdateRates;
  explicit SlowingRates(const UpdateOperands& in) : scalars_(in.scalars()), plain_(0, in) {}
  MESHWORK_HOST_DEVICE UpdateRates operator()() const {
    UpdateRates rates = plain_();
    const auto most = static_cast<float>(1.0 / sqrt(static_cast<double>(scalars_->step) + 1.0));
    if (rates.rate > most) rates.rate = most;
    return rates;
  }

 private:
  const StepScalars* scalars_;
  PlainRates plain_;
};

struct SlowingForm {
  const float* g;
  float* w;

  SlowingForm(const SlowingSpec&, const UpdateOperands& in) : g(in.block(0)), w(in.block(1)) {}
  [[nodiscard]] static SlowingRates step_rates(const SlowingSpec&, const UpdateOperands& in) {
    return SlowingRates(in);
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const UpdateRates& rates) const {
    w[i] = w[i] - rates.rate * (g[i] * rates.factor);
  }
};

/// v (outer, rows, columns) = r (outer, rows) / m (outer) * c (outer, columns).
/// Operands: r, c, m, v.
struct OuterProductSpec {
  std::int64_t outer = 0, rows = 0, columns = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("outer product", {outer, rows, columns});
  }
  [[nodiscard]] KernelWork work() const { return spec::passes(1, outer * rows * columns); }
};
/// g = g / sqrt(v), and 0 where g is 0. Operands: v, g.
struct RootQuotientSpec {
  std::int64_t count = 0;
  [[nodiscard]] std::string text() const { return spec::sized("root quotient", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
};
/// f (float32 scalar) = max(least, rms(w)) / max(1, rms(u) / threshold), where w and u are `count`
/// elements of these squared norms (float64 scalars), and rms is the root of the mean square.
/// Operands: |w|^2, |u|^2, f.
struct RelativeSizeSpec {
  std::int64_t count = 0;
  double least = 1e-3, threshold = 1;
  [[nodiscard]] std::string text() const { return spec::sized("relative size", {count}); }
  [[nodiscard]] KernelWork work() const { return {0, spec::f32 + 2 * spec::f64}; }
};

}  // namespace meshwork
