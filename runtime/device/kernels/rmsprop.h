// RMSprop.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/update.h"

namespace meshwork {

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

  /// choose(std::type_identity<Form>()) for its form.
  template <class Choose>
  auto with_form(const Choose& choose) const;
  [[nodiscard]] std::string text() const {
    return spec::sized("rmsprop", {count}) +
           spec::words({{momentum != 0, "momentum"}, {centered, "centered"}}) +
           words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return 3 + (momentum != 0 ? 1 : 0) + (centered ? 1 : 0); }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

template <bool has_momentum, bool centered>
struct RmspropForm {
  const float* g;
  float *w, *v, *m, *means;
  float rho, fresh, epsilon, momentum;

  RmspropForm(const RmspropSpec& spec, const UpdateOperands& in)
      : g(in.block(0)),
        w(in.block(1)),
        v(in.block(2)),
        m(has_momentum ? in.block(3) : nullptr),
        means(centered ? in.block(has_momentum ? 4 : 3) : nullptr),
        rho(static_cast<float>(spec.rho)),
        fresh(static_cast<float>(1.0 - spec.rho)),
        epsilon(static_cast<float>(spec.epsilon)),
        momentum(static_cast<float>(spec.momentum)) {}
  [[nodiscard]] static PlainRates step_rates(const RmspropSpec& spec, const UpdateOperands& in) {
    return {spec.decay, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const UpdateRates& rates) const {
    const float gradient = g[i] * rates.factor;
    const float decayed = w[i] - w[i] * rates.decay;
    const float square = rho * v[i] + fresh * (gradient * gradient);
    v[i] = square;
    float variance = square;
    if constexpr (centered) {
      const float mean = rho * means[i] + fresh * gradient;
      means[i] = mean;
      variance = square - mean * mean;
    }
    const float step = rates.rate * gradient / sqrtf(variance + epsilon);
    if constexpr (has_momentum) {
      const float velocity = momentum * m[i] + step;
      m[i] = velocity;
      w[i] = decayed - velocity;
    } else {
      w[i] = decayed - step;
    }
  }
};

template <class Choose>
auto RmspropSpec::with_form(const Choose& choose) const {
  if (momentum == 0) {
    return centered ? choose(std::type_identity<RmspropForm<false, true>>())
                    : choose(std::type_identity<RmspropForm<false, false>>());
  }
  return centered ? choose(std::type_identity<RmspropForm<true, true>>())
                  : choose(std::type_identity<RmspropForm<true, false>>());
}

}  // namespace meshwork
