// Lamb, the first half: the steps of all elements, which norms of variables scale.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/moments.h"

namespace meshwork {

struct LambForm;

/// Operands: StepScalars, [factor], g, w, m, v. w is only decayed; in the place of g is left the step
/// d = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon),
/// with m += (1 - beta_1)(g - m) and v += (1 - beta_2)(g^2 - v).
struct LambSpec {
  std::int64_t count = 0;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;  // never: the values are not new yet

  using Form = LambForm;
  [[nodiscard]] std::string text() const {
    return spec::sized("lamb", {count}) + words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return 4; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

struct LambStep {
  float of_mean, of_squares;  // 1 / (1 - beta^t) of either
  float factor, decay;        // as in UpdateRates
};

/// In double, t the number of the step, counted from 1.
class LambRates {
 public:
  using Result = LambStep;
  LambRates(const LambSpec& spec, const UpdateOperands& in)
      : scalars_(in.scalars()),
        plain_(spec.decay, in),
        beta_1_(spec.beta_1),
        beta_2_(spec.beta_2) {}
  MESHWORK_HOST_DEVICE LambStep operator()() const {
    const UpdateRates plain = plain_();
    const double t = static_cast<double>(scalars_->step) + 1.0;
    return {static_cast<float>(1.0 / (1.0 - pow(beta_1_, t))),
            static_cast<float>(1.0 / (1.0 - pow(beta_2_, t))), plain.factor, plain.decay};
  }

 private:
  const StepScalars* scalars_;
  PlainRates plain_;
  double beta_1_, beta_2_;
};

struct LambForm : MomentsForm {
  using MomentsForm::MomentsForm;
  [[nodiscard]] static LambRates step_rates(const LambSpec& spec, const UpdateOperands& in) {
    return {spec, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const LambStep& rates) const {
    const Moments now = follow(i, rates.factor, rates.decay);
    w[i] = now.decayed;
    g[i] = now.mean * rates.of_mean / (sqrtf(now.square * rates.of_squares) + epsilon);
  }
};

}  // namespace meshwork
