// ScheduleFreeAdamW.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/kernels/update.h"

namespace meshwork {

struct ScheduleFreeForm;

/// Operands: StepScalars, [factor], g, w, z, v, [narrowed w]. In the first step z begins as w.
/// v += (1 - beta_2)(g^2 - v); x = (w - (1 - beta_1) z) / beta_1;
/// z -= lr min(1, t / warmup) g / (sqrt(v / (1 - beta_2^t)) + epsilon); x += (z - x) / t;
/// w = (1 - beta_1) z + beta_1 x.
struct ScheduleFreeSpec {
  std::int64_t count = 0;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-8;
  std::int64_t warmup = 0;
  float decay = 0;
  bool scaled = false;
  bool narrows = false;

  using Form = ScheduleFreeForm;
  [[nodiscard]] std::string text() const {
    return spec::sized("schedule-free adamw", {count}) + words_of_update(*this);
  }
  [[nodiscard]] int blocks() const { return 4; }
  [[nodiscard]] KernelWork work() const { return work_of_update(*this); }
};

struct ScheduleFreeStep {
  float rate, of_squares, share;  // of steps; 1 / (1 - beta_2^t); 1 / t
  float factor, decay;            // as in UpdateRates
  bool first;
};

/// In double, t the number of the step, counted from 1.
class ScheduleFreeRates {
 public:
  using Result = ScheduleFreeStep;
  ScheduleFreeRates(const ScheduleFreeSpec& spec, const UpdateOperands& in)
      : scalars_(in.scalars()),
        plain_(spec.decay, in),
        beta_2_(spec.beta_2),
        warmup_(static_cast<double>(spec.warmup)) {}
  MESHWORK_HOST_DEVICE ScheduleFreeStep operator()() const {
    const UpdateRates plain = plain_();
    const double t = static_cast<double>(scalars_->step) + 1.0;
    const double warm = t < warmup_ ? t / warmup_ : 1.0;
    return {static_cast<float>(static_cast<double>(plain.rate) * warm),
            static_cast<float>(1.0 / (1.0 - pow(beta_2_, t))),
            static_cast<float>(1.0 / t),
            plain.factor,
            plain.decay,
            scalars_->step == 0};
  }

 private:
  const StepScalars* scalars_;
  PlainRates plain_;
  double beta_2_, warmup_;
};

struct ScheduleFreeForm {
  const float* g;
  float *w, *z, *v;
  float kept, new_1, new_2, epsilon;

  ScheduleFreeForm(const ScheduleFreeSpec& spec, const UpdateOperands& in)
      : g(in.block(0)),
        w(in.block(1)),
        z(in.block(2)),
        v(in.block(3)),
        kept(static_cast<float>(spec.beta_1)),
        new_1(static_cast<float>(1.0 - spec.beta_1)),
        new_2(static_cast<float>(1.0 - spec.beta_2)),
        epsilon(static_cast<float>(spec.epsilon)) {}
  [[nodiscard]] static ScheduleFreeRates step_rates(const ScheduleFreeSpec& spec,
                                                    const UpdateOperands& in) {
    return {spec, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const ScheduleFreeStep& rates) const {
    const float gradient = g[i] * rates.factor;
    const float decayed = w[i] - w[i] * rates.decay;
    const float before = rates.first ? w[i] : z[i];
    const float square = v[i] + (gradient * gradient - v[i]) * new_2;
    const float after =
        before - rates.rate * gradient / (sqrtf(square * rates.of_squares) + epsilon);
    const float mean = (decayed - new_1 * before) / kept;
    v[i] = square;
    z[i] = after;
    w[i] = new_1 * after + kept * (mean + (after - mean) * rates.share);
  }
};

}  // namespace meshwork
