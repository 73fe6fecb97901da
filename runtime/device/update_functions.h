// The optimizers' updates of one element: written once for the kernels of every device, which run
// them over flat blocks in one fused pass.
//
// A form of an update, as AdamForm<amsgrad>, is an object of plain values and of pointers to the
// blocks that form(i, rates) reads and writes for element i. What depends on the step alone is
// worked out once, ahead of the elements, by what Form::step_rates gives. with_update_form chooses
// the form for a specification (kernels/updates.h, which has formulas and the order of operands).
//
// Multiplying by a factor of 1 and subtracting a decay of 0 are exact, and free beside the traffic
// of memory that bounds an update, so a form serves with and without.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "runtime/device/host_device.h"
#include "runtime/device/kernels/updates.h"
#include "runtime/device/narrowing.h"

namespace meshwork {

/// The operands of an update in order: scalars, [factor], then the blocks.
class UpdateOperands {
 public:
  UpdateOperands(void* const* operands, bool scaled)
      : scalars_(static_cast<const StepScalars*>(operands[0])),
        factor_(scaled ? static_cast<const float*>(operands[1]) : nullptr),
        blocks_(operands + (scaled ? 2 : 1)) {}
  [[nodiscard]] const StepScalars* scalars() const { return scalars_; }
  /// Null where gradients are taken as they are.
  [[nodiscard]] const float* factor() const { return factor_; }
  [[nodiscard]] float* block(int index) const { return static_cast<float*>(blocks_[index]); }
  [[nodiscard]] std::uint16_t* narrow_block(int index) const {
    return static_cast<std::uint16_t*>(blocks_[index]);
  }

 private:
  const StepScalars* scalars_;
  const float* factor_;
  void* const* blocks_;
};

/// What elements need of their step.
struct UpdateRates {
  float rate;    // the learning rate, with Adam's correction in it
  float factor;  // of gradients, before all else
  float decay;   // the share of a parameter that is taken off
};

/// Works out the rates of a step from the scalars where they lie, which may be a device's memory.
class PlainRates {
 public:
  using Result = UpdateRates;
  PlainRates(float decay, const UpdateOperands& in)
      : scalars_(in.scalars()), factor_(in.factor()), decay_(decay) {}
  MESHWORK_HOST_DEVICE UpdateRates operator()() const {
    return {scalars_->learning_rate, factor_ != nullptr ? *factor_ : 1.0f,
            decay_ * scalars_->learning_rate};
  }

 private:
  const StepScalars* scalars_;
  const float* factor_;
  float decay_;
};

/// The same with Adam's correction in the rate: lr sqrt(1 - beta_2^t) / (1 - beta_1^t), in double,
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

template <bool has_momentum, bool nesterov>
struct SgdForm {
  /// How many blocks there are: gradients, which are read, and others, which are written too. The
  /// block of narrowed values is the next.
  static constexpr int blocks = has_momentum ? 3 : 2;
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

template <bool amsgrad>
struct AdamForm {
  static constexpr int blocks = amsgrad ? 5 : 4;
  const float* g;
  float *w, *m, *v, *largest;
  float new_1, new_2, epsilon;

  AdamForm(const AdamSpec& spec, const UpdateOperands& in)
      : g(in.block(0)),
        w(in.block(1)),
        m(in.block(2)),
        v(in.block(3)),
        largest(amsgrad ? in.block(4) : nullptr),
        new_1(static_cast<float>(1.0 - spec.beta_1)),
        new_2(static_cast<float>(1.0 - spec.beta_2)),
        epsilon(static_cast<float>(spec.epsilon)) {}
  [[nodiscard]] static AdamRates step_rates(const AdamSpec& spec, const UpdateOperands& in) {
    return {spec, in};
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const UpdateRates& rates) const {
    const float gradient = g[i] * rates.factor;
    const float decayed = w[i] - w[i] * rates.decay;
    const float mean = m[i] + (gradient - m[i]) * new_1;
    const float square = v[i] + (gradient * gradient - v[i]) * new_2;
    m[i] = mean;
    v[i] = square;
    float below = square;
    if constexpr (amsgrad) {
      // Of a NaN and a number, the NaN: as Keras's maximum does.
      below = square <= largest[i] ? largest[i] : square;
      largest[i] = below;
    }
    w[i] = decayed - rates.rate * mean / (sqrtf(below) + epsilon);
  }
};

template <bool has_momentum, bool centered>
struct RmspropForm {
  static constexpr int blocks = 3 + (has_momentum ? 1 : 0) + (centered ? 1 : 0);
  const float* g;
  float *w, *v, *m, *means;
  float rho, fresh, epsilon, momentum;

  RmspropForm(const RmspropSpec& spec, const UpdateOperands& in)
      : g(in.block(0)),
        w(in.block(1)),
        v(in.block(2)),
        m(has_momentum ? in.block(3) : nullptr),
        means(centered ? in.block(blocks - 1) : nullptr),
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

/// Bytes read and written for a parameter: all blocks are read, all but the gradients written.
template <class Form>
[[nodiscard]] constexpr std::int64_t bytes_a_parameter(bool narrows) {
  constexpr std::int64_t float_bytes = sizeof(float);
  return (2 * Form::blocks - 1) * float_bytes + (narrows ? bfloat16_bytes : 0);
}

/// choose(std::type_identity<Form>()) for the form of `spec`.
template <class Choose>
auto with_update_form(const SgdSpec& spec, const Choose& choose) {
  if (spec.momentum == 0.0f) return choose(std::type_identity<SgdForm<false, false>>());
  return spec.nesterov ? choose(std::type_identity<SgdForm<true, true>>())
                       : choose(std::type_identity<SgdForm<true, false>>());
}
template <class Choose>
auto with_update_form(const AdamSpec& spec, const Choose& choose) {
  return spec.amsgrad ? choose(std::type_identity<AdamForm<true>>())
                      : choose(std::type_identity<AdamForm<false>>());
}
template <class Choose>
auto with_update_form(const RmspropSpec& spec, const Choose& choose) {
  if (spec.momentum == 0) {
    return spec.centered ? choose(std::type_identity<RmspropForm<false, true>>())
                         : choose(std::type_identity<RmspropForm<false, false>>());
  }
  return spec.centered ? choose(std::type_identity<RmspropForm<true, true>>())
                       : choose(std::type_identity<RmspropForm<true, false>>());
}

}  // namespace meshwork
