// Adagrad.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/update.h"

namespace meshwork {

struct AdagradForm;

/// Operands: StepScalars, [factor], g, w, a, [narrowed w].
/// a += g^2; w -= lr g / sqrt(a + epsilon).
struct AdagradSpec {
  std::int64_t count = 0;
  double epsilon = 1e-7;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;

  using Form = AdagradForm;
  [[nodiscard]] std::string text() const {
    return spec::sized("adagrad", {count}) + words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return 3; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

struct AdagradForm {
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

}  // namespace meshwork
