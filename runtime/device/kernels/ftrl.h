// Ftrl.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/update.h"

namespace meshwork {

/// Operands: StepScalars, [factor], g, w, a, z, [narrowed w]. With p the power and lambda_2 =
/// l2 + beta / (2 lr):
/// n = a + g^2; z += g + 2 shrinkage w - (n^-p - a^-p) / lr w; a = n;
/// w = (clip(z, -l1, l1) - z) / (n^-p / lr + 2 lambda_2); 0 where |z| <= l1.
struct FtrlSpec {
  std::int64_t count = 0;
  double power = -0.5, l1 = 0, l2 = 0, shrinkage = 0, beta = 0;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;

  /// choose(std::type_identity<Form>()) for its form.
  template <class Choose>
  auto with_form(const Choose& choose) const;
  [[nodiscard]] std::string text() const {
    return spec::sized("ftrl", {count}) + spec::words({{power == -0.5, "root"}}) +
           words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return 4; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

/// `root`: the power is -0.5.
template <bool root>
struct FtrlForm {
  const float* g;
  float *w, *a, *z;
  float exponent, l1, double_l2, double_shrinkage, beta;

  FtrlForm(const FtrlSpec& spec, const UpdateOperands& in)
      : g(in.block(0)),
        w(in.block(1)),
        a(in.block(2)),
        z(in.block(3)),
        exponent(static_cast<float>(-spec.power)),
        l1(static_cast<float>(spec.l1)),
        double_l2(static_cast<float>(2 * spec.l2)),
        double_shrinkage(static_cast<float>(2 * spec.shrinkage)),
        beta(static_cast<float>(spec.beta)) {}
  [[nodiscard]] static PlainRates step_rates(const FtrlSpec& spec, const UpdateOperands& in) {
    return {spec.decay, in};
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE float raised(float squares) const {
    return root ? sqrtf(squares) : powf(squares, exponent);
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const UpdateRates& rates) const {
    const float gradient = g[i] * rates.factor;
    const float decayed = w[i] - w[i] * rates.decay;
    const float squares = a[i] + gradient * gradient;
    const float before = raised(a[i]), grown = raised(squares);
    // Of two roots the difference of their squares is known better than their own.
    const float both = grown + before;
    const float growth = root ? (both > 0.0f ? gradient * gradient / both : both) : grown - before;
    const float linear =
        z[i] + (gradient + double_shrinkage * decayed - growth / rates.rate * decayed);
    a[i] = squares;
    z[i] = linear;
    const float within = linear < -l1 ? -l1 : (linear > l1 ? l1 : linear);
    const float above = within - linear;
    const float below = (grown + beta) / rates.rate + double_l2;
    // Without a gradient so far both are 0, as in the gaps between variables.
    w[i] = above == 0.0f ? 0.0f : above / below;
  }
};

template <class Choose>
auto FtrlSpec::with_form(const Choose& choose) const {
  return power == -0.5 ? choose(std::type_identity<FtrlForm<true>>())
                       : choose(std::type_identity<FtrlForm<false>>());
}

}  // namespace meshwork
