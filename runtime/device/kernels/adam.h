// Adam, and AdamW, which is Adam with a decay.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/moments.h"

namespace meshwork {

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

  /// choose(std::type_identity<Form>()) for its form.
  template <class Choose>
  auto with_form(const Choose& choose) const;
  [[nodiscard]] std::string text() const {
    return spec::sized("adam", {count}) + spec::words({{amsgrad, "amsgrad"}}) +
           words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return amsgrad ? 5 : 4; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

/// Plain rates with Adam's correction in the rate: lr sqrt(1 - beta_2^t) / (1 - beta_1^t), in double,
/// t the number of the step, counted from 1.
class AdamRates {
 public:
  using Result = UpdateRates;
  AdamRates(const AdamSpec& spec, const UpdateOperands& in)
      : scalars_(in.scalars()),
        plain_(spec.decay, in),
        beta_1_(spec.beta_1),
        beta_2_(spec.beta_2) {}
  MESHWORK_HOST_DEVICE UpdateRates operator()() const {
    UpdateRates rates = plain_();
    const double t = static_cast<double>(scalars_->step) + 1.0;
    rates.rate = static_cast<float>(static_cast<double>(rates.rate) * sqrt(1.0 - pow(beta_2_, t)) /
                                    (1.0 - pow(beta_1_, t)));
    return rates;
  }

 private:
  const StepScalars* scalars_;
  PlainRates plain_;
  double beta_1_, beta_2_;
};

template <bool amsgrad>
struct AdamForm : MomentsForm {
  float* largest;

  AdamForm(const AdamSpec& spec, const UpdateOperands& in)
      : MomentsForm(spec, in), largest(amsgrad ? in.block(4) : nullptr) {}
  [[nodiscard]] static AdamRates step_rates(const AdamSpec& spec, const UpdateOperands& in) {
    return {spec, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const UpdateRates& rates) const {
    const Moments now = follow(i, rates.factor, rates.decay);
    float below = now.square;
    if constexpr (amsgrad) {
      // Of a NaN and a number, the NaN: as Keras's maximum does.
      below = now.square <= largest[i] ? largest[i] : now.square;
      largest[i] = below;
    }
    w[i] = now.decayed - rates.rate * now.mean / (sqrtf(below) + epsilon);
  }
};

template <class Choose>
auto AdamSpec::with_form(const Choose& choose) const {
  return amsgrad ? choose(std::type_identity<AdamForm<true>>())
                 : choose(std::type_identity<AdamForm<false>>());
}

}  // namespace meshwork
