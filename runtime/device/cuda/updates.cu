// Optimizers: one fused pass over parameters, gradients and slots, by the formulas of
// reference/keras.md; one launch for a whole flat block. What depends on the step alone is worked
// out once a block, from the scalars in device memory, so that nothing of a launch changes from
// step to step. A thread an element; bound by memory traffic: 12 bytes a parameter for plain SGD,
// 20 with momentum, 28 for Adam; 2 more where new values are stored in bfloat16 too.
#include <cmath>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/compile.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/host_device.h"
#include "runtime/device/narrowing.h"

namespace meshwork::cuda {

namespace {

/// The operands of an update in order: scalars, [factor], then the blocks.
struct UpdateOperands {
  UpdateOperands(void* const* operands, bool scaled)
      : scalars(at<const StepScalars>(operands, 0)),
        factor(scaled ? at<const float>(operands, 1) : nullptr),
        blocks(operands + (scaled ? 2 : 1)) {}
  [[nodiscard]] float* block(int index) const { return static_cast<float*>(blocks[index]); }
  /// The same of narrowed values; null if there are none.
  [[nodiscard]] std::uint16_t* narrowed_block(bool narrows, int index) const {
    return narrows ? static_cast<std::uint16_t*>(blocks[index]) : nullptr;
  }

  const StepScalars* scalars;
  const float* factor;
  void* const* blocks;
};

struct Rates {
  float rate, factor, decay;
};

/// The rates of a step: the learning rate, the factor of gradients, and decay times learning rate.
struct PlainRates {
  using Result = Rates;
  const StepScalars* scalars;
  const float* factor;
  float decay;
  MESHWORK_HOST_DEVICE Rates operator()() const {
    return {scalars->learning_rate, factor != nullptr ? *factor : 1.0f,
            decay * scalars->learning_rate};
  }
};

/// The same with Adam's correction in the rate.
struct AdamRates {
  using Result = Rates;
  const StepScalars* scalars;
  const float* factor;
  float decay;
  double beta_1, beta_2;
  MESHWORK_HOST_DEVICE Rates operator()() const {
    const double t = static_cast<double>(scalars->step) + 1.0;
    const double rate = static_cast<double>(scalars->learning_rate) * sqrt(1.0 - pow(beta_2, t)) /
                        (1.0 - pow(beta_1, t));
    return {static_cast<float>(rate), factor != nullptr ? *factor : 1.0f,
            decay * scalars->learning_rate};
  }
};

template <bool has_momentum, bool nesterov>
struct Sgd {
  const float* g;
  float *w, *m;
  float momentum;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const Rates& rates) const {
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
struct Adam {
  const float* g;
  float *w, *m, *v, *largest;
  float new_1, new_2, epsilon;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const Rates& rates) const {
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
struct Rmsprop {
  const float* g;
  float *w, *v, *m, *means;
  float rho, fresh, epsilon, momentum;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const Rates& rates) const {
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

/// An update that stores the new value in bfloat16 too, if there is a place for it.
template <class Update>
struct Narrowing {
  Update update;
  std::uint16_t* narrow;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const Rates& rates) const {
    update(i, rates);
    if (narrow != nullptr) narrow[i] = narrowed(update.w[i]);
  }
};

template <class Prepare, class Update>
void start_update(const Launcher& launcher, std::int64_t count, const Prepare& rates,
                  const Update& update, std::uint16_t* narrow) {
  for_elements_prepared(launcher, count, rates, Narrowing<Update>{update, narrow});
}

template <bool has_momentum, bool nesterov>
KernelPointer compile_sgd(const SgdSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    const UpdateOperands in(operands, spec.scaled);
    start_update(launcher, spec.count, PlainRates{in.scalars, in.factor, spec.decay},
                 Sgd<has_momentum, nesterov>{in.block(0), in.block(1),
                                             has_momentum ? in.block(2) : nullptr, spec.momentum},
                 in.narrowed_block(spec.narrows, has_momentum ? 3 : 2));
  });
}

template <bool amsgrad>
KernelPointer compile_adam(const AdamSpec& spec, const Context& context) {
  const auto new_1 = static_cast<float>(1.0 - spec.beta_1);
  const auto new_2 = static_cast<float>(1.0 - spec.beta_2);
  const auto epsilon = static_cast<float>(spec.epsilon);
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    const UpdateOperands in(operands, spec.scaled);
    start_update(launcher, spec.count,
                 AdamRates{in.scalars, in.factor, spec.decay, spec.beta_1, spec.beta_2},
                 Adam<amsgrad>{in.block(0), in.block(1), in.block(2), in.block(3),
                               amsgrad ? in.block(4) : nullptr, new_1, new_2, epsilon},
                 in.narrowed_block(spec.narrows, amsgrad ? 5 : 4));
  });
}

template <bool has_momentum, bool centered>
KernelPointer compile_rmsprop(const RmspropSpec& spec, const Context& context) {
  constexpr int optional_slots = (has_momentum ? 1 : 0) + (centered ? 1 : 0);
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    const UpdateOperands in(operands, spec.scaled);
    start_update(launcher, spec.count, PlainRates{in.scalars, in.factor, spec.decay},
                 Rmsprop<has_momentum, centered>{
                     in.block(0), in.block(1), in.block(2), has_momentum ? in.block(3) : nullptr,
                     centered ? in.block(2 + optional_slots) : nullptr,
                     static_cast<float>(spec.rho), static_cast<float>(1.0 - spec.rho),
                     static_cast<float>(spec.epsilon), static_cast<float>(spec.momentum)},
                 in.narrowed_block(spec.narrows, 3 + optional_slots));
  });
}

}  // namespace

KernelPointer compile(const SgdSpec& spec, const Context& context) {
  if (spec.momentum == 0.0f) return compile_sgd<false, false>(spec, context);
  return spec.nesterov ? compile_sgd<true, true>(spec, context)
                       : compile_sgd<true, false>(spec, context);
}

KernelPointer compile(const AdamSpec& spec, const Context& context) {
  return spec.amsgrad ? compile_adam<true>(spec, context) : compile_adam<false>(spec, context);
}

KernelPointer compile(const RmspropSpec& spec, const Context& context) {
  if (spec.momentum == 0) {
    return spec.centered ? compile_rmsprop<false, true>(spec, context)
                         : compile_rmsprop<false, false>(spec, context);
  }
  return spec.centered ? compile_rmsprop<true, true>(spec, context)
                       : compile_rmsprop<true, false>(spec, context);
}

}  // namespace meshwork::cuda
