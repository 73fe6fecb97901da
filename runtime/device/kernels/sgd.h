// SGD: plain, with momentum, with Nesterov's.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/update.h"

namespace meshwork {

/// Operands: StepScalars, [factor], g, w, [m if momentum is not 0], [narrowed w].
/// w -= lr g; with momentum m = momentum m - lr g, w += m; Nesterov's w += momentum m - lr g.
struct SgdSpec {
  std::int64_t count = 0;
  float momentum = 0;
  bool nesterov = false;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;

  /// choose(std::type_identity<Form>()) for its form.
  template <class Choose>
  auto with_form(const Choose& choose) const;
  [[nodiscard]] std::string text() const {
    return spec::sized("sgd", {count}) +
           spec::words({{momentum != 0, nesterov ? "nesterov" : "momentum"}}) +
           words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return momentum != 0 ? 3 : 2; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

template <bool has_momentum, bool nesterov>
struct SgdForm {
  const float* g;
  float *w, *m;
  float momentum;

  SgdForm(const SgdSpec& spec, const UpdateOperands& in)
      : g(in.block(0)),
        w(in.block(1)),
        m(has_momentum ? in.block(2) : nullptr),
        momentum(spec.momentum) {}
  [[nodiscard]] static PlainRates step_rates(const SgdSpec& spec, const UpdateOperands& in) {
    return {spec.decay, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const UpdateRates& rates) const {
    const float decayed = w[i] - w[i] * rates.decay;
    const float step = rates.rate * (g[i] * rates.factor);
    if constexpr (has_momentum) {
      const float velocity = momentum * m[i] - step;
      m[i] = velocity;
      w[i] = nesterov ? decayed + momentum * velocity - step : decayed + velocity;
    } else {
      w[i] = decayed - step;
    }
  }
};

template <class Choose>
auto SgdSpec::with_form(const Choose& choose) const {
  if (momentum == 0.0f) return choose(std::type_identity<SgdForm<false, false>>());
  return nesterov ? choose(std::type_identity<SgdForm<true, true>>())
                  : choose(std::type_identity<SgdForm<true, false>>());
}

}  // namespace meshwork
