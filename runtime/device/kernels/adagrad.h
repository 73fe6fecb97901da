// Adagrad.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/update.h"

namespace meshwork {

/// Operands: StepScalars, [factor], g, w, a, [narrowed w].
/// a += g^2; w -= lr g / sqrt(a + epsilon).
struct AdagradSpec {
  std::int64_t count = 0;
  double epsilon = 1e-7;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;

  /// choose(std::type_identity<Form>()) for its form.
  template <class Choose>
  auto with_form(const Choose& choose) const;
  [[nodiscard]] std::string text() const {
    return spec::sized("adagrad", {count}) + words_of_update(*this);
  }
  [[nodiscard]] KernelWork work() const;
};

struct AdagradForm {
  static constexpr int blocks = 3;
  const float* g;
  float *w, *a;
  float epsilon;

  AdagradForm(const AdagradSpec& spec, const UpdateOperands& in)
      : g(in.block(0)), w(in.block(1)), a(in.block(2)), epsilon(static_cast<float>(spec.epsilon)) {}
  [[nodiscard]] static PlainRates step_rates(const AdagradSpec& spec, const UpdateOperands& in) {
    return {spec.decay, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const UpdateRates& rates) const {
    const float gradient = g[i] * rates.factor;
    const float decayed = w[i] - w[i] * rates.decay;
    const float squares = a[i] + gradient * gradient;
    a[i] = squares;
    w[i] = decayed - rates.rate * gradient / sqrtf(squares + epsilon);
  }
};

template <class Choose>
auto AdagradSpec::with_form(const Choose& choose) const {
  return choose(std::type_identity<AdagradForm>());
}

inline KernelWork AdagradSpec::work() const {
  return work_of_update(*this);
}

}  // namespace meshwork
