// Nadam.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/moments.h"

namespace meshwork {

struct NadamForm;

/// Operands: StepScalars, [factor], g, w, m, v, [narrowed w].
/// With mu_k = beta_1 (1 - 0.96^k / 2) and P the product of mu_1 to mu_t:
/// m += (1 - beta_1)(g - m); v += (1 - beta_2)(g^2 - v);
/// w -= lr (mu_(t+1) m / (1 - P mu_(t+1)) + (1 - mu_t) g / (1 - P)) /
///      (sqrt(v / (1 - beta_2^t)) + epsilon).
struct NadamSpec {
  std::int64_t count = 0;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;

  using Form = NadamForm;
  [[nodiscard]] std::string text() const {
    return spec::sized("nadam", {count}) + words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return 4; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

/// The product of beta_1 (1 - 0.96^k / 2) over k from 1 to t. With q = 0.96 the logarithm of the
/// second factors' product is -sum over n of (q / 2)^n (1 - q^(n t)) / (n (1 - q^n)), whose terms
/// halve: no state, and no loop over the steps so far.
[[nodiscard]] MESHWORK_HOST_DEVICE inline double nadam_product(double beta_1, double t) {
  constexpr double q = 0.96;
  const double over_steps = pow(q, t);
  double power = 1, power_of_steps = 1, half = 1, sum = 0;
  for (int n = 1; n <= 60; ++n) {
    power *= q;
    power_of_steps *= over_steps;
    half *= 0.5;
    sum += half * power * (1 - power_of_steps) / (n * (1 - power));
  }
  return pow(beta_1, t) * exp(-sum);
}

struct NadamStep {
  float of_mean, of_gradient;  // the learning rate times what each counts
  float of_squares;            // 1 / (1 - beta_2^t)
  float factor, decay;         // as in UpdateRates
};

/// In double, t the number of the step, counted from 1.
class NadamRates {
 public:
  using Result = NadamStep;
  NadamRates(const NadamSpec& spec, const UpdateOperands& in)
      : scalars_(in.scalars()),
        plain_(spec.decay, in),
        beta_1_(spec.beta_1),
        beta_2_(spec.beta_2) {}
  MESHWORK_HOST_DEVICE NadamStep operator()() const {
    const UpdateRates plain = plain_();
    const double t = static_cast<double>(scalars_->step) + 1.0;
    const double rate = static_cast<double>(plain.rate);
    const double product = nadam_product(beta_1_, t);
    const double now = momentum(t), next = momentum(t + 1.0);
    return {static_cast<float>(rate * next / (1.0 - product * next)),
            static_cast<float>(rate * (1.0 - now) / (1.0 - product)),
            static_cast<float>(1.0 / (1.0 - pow(beta_2_, t))), plain.factor, plain.decay};
  }

 private:
  [[nodiscard]] MESHWORK_HOST_DEVICE double momentum(double t) const {
    return beta_1_ * (1.0 - 0.5 * pow(0.96, t));
  }

  const StepScalars* scalars_;
  PlainRates plain_;
  double beta_1_, beta_2_;
};

struct NadamForm : MomentsForm {
  using MomentsForm::MomentsForm;
  [[nodiscard]] static NadamRates step_rates(const NadamSpec& spec, const UpdateOperands& in) {
    return {spec, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const NadamStep& rates) const {
    const Moments now = follow(i, rates.factor, rates.decay);
    w[i] = now.decayed - (rates.of_mean * now.mean + rates.of_gradient * now.gradient) /
                             (sqrtf(now.square * rates.of_squares) + epsilon);
  }
};

}  // namespace meshwork
