// Optimizers: one fused pass over parameters, gradients and slots, by the formulas of
// reference/keras.md. What depends on the step alone is folded into scalars before the loop.
//
// They are bound by memory traffic: bytes read and written for a parameter are 12 for plain SGD, 20
// with momentum, 28 for Adam. Multiplying by a factor of 1 and subtracting a decay of 0 are exact,
// and free beside that, so one loop serves with and without.
//
// New values that are stored in bfloat16 too are rounded piece by piece, while they are in the
// nearest cache: 2 bytes more.
//
// Where ranks share memory, gradients have been summed before (collectives/shared_reduction.h). One
// pass for both would move a third less for plain SGD, but was no faster on two ranks of two cores
// (174 ms a step of the network `wide` of tests/benchmarks/step, 171 with two passes): all ranks
// then want the memory at the same time, behind backward, where otherwise one adds up while another
// still computes.
#include <algorithm>
#include <cmath>

#include "runtime/device/cpu/loops.h"
#include "runtime/device/narrowing.h"

namespace meshwork::cpu {

namespace {

/// The operands of an update in order: scalars, [factor], then the blocks.
class UpdateOperands {
 public:
  UpdateOperands(void* const* operands, bool scaled)
      : scalars_(*static_cast<const StepScalars*>(operands[0])),
        factor_(scaled ? *static_cast<const float*>(operands[1]) : 1.0f),
        blocks_(operands + (scaled ? 2 : 1)) {}
  [[nodiscard]] float learning_rate() const { return scalars_.learning_rate; }
  /// The number of this update, counted from 1.
  [[nodiscard]] double number() const { return static_cast<double>(scalars_.step) + 1.0; }
  [[nodiscard]] float factor() const { return factor_; }
  [[nodiscard]] float* block(int index) const { return static_cast<float*>(blocks_[index]); }
  /// The same of narrowed values; null if there are none.
  [[nodiscard]] std::uint16_t* narrowed_block(bool narrows, int index) const {
    return narrows ? static_cast<std::uint16_t*>(blocks_[index]) : nullptr;
  }

 private:
  StepScalars scalars_;
  float factor_;
  void* const* blocks_;
};

/// for_ranges with `update`, which gives new values `w`, at `bytes` of traffic an element; these
/// are stored in `narrow` too, unless that is null.
template <class Update>
void update_ranges(int threads, std::int64_t count, std::int64_t bytes, const float* w,
                   std::uint16_t* narrow, const Update& update) {
  if (narrow == nullptr) {
    for_ranges(threads, count, bytes, update);
    return;
  }
  for_ranges(threads, count, bytes + 2, [=](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t piece = 1024;  // elements: 4 KB of each operand
    for (std::int64_t from = begin; from < end; from += piece) {
      const std::int64_t to = std::min(from + piece, end);
      update(from, to);
      for (std::int64_t i = from; i < to; ++i) narrow[i] = narrowed(w[i]);
    }
  });
}

template <bool HasMomentum, bool Nesterov>
KernelPointer compile_sgd(const SgdSpec& spec, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const UpdateOperands in(operands, spec.scaled);
    const float rate = in.learning_rate(), factor = in.factor(), momentum = spec.momentum;
    const float decay = spec.decay * rate;
    const float* g = in.block(0);
    float* w = in.block(1);
    float* m = HasMomentum ? in.block(2) : nullptr;
    std::uint16_t* narrow = in.narrowed_block(spec.narrows, HasMomentum ? 3 : 2);
    update_ranges(threads, spec.count, HasMomentum ? 20 : 12, w, narrow,
                  [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
                    for (std::int64_t i = begin; i < end; ++i) {
                      const float decayed = w[i] - w[i] * decay;
                      const float step = rate * (g[i] * factor);
                      if constexpr (HasMomentum) {
                        const float velocity = momentum * m[i] - step;
                        m[i] = velocity;
                        w[i] = Nesterov ? decayed + momentum * velocity - step : decayed + velocity;
                      } else {
                        w[i] = decayed - step;
                      }
                    }
                  });
  });
}

template <bool Amsgrad>
KernelPointer compile_adam(const AdamSpec& spec, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const UpdateOperands in(operands, spec.scaled);
    const double t = in.number();
    const auto rate = static_cast<float>(static_cast<double>(in.learning_rate()) *
                                         std::sqrt(1.0 - std::pow(spec.beta_2, t)) /
                                         (1.0 - std::pow(spec.beta_1, t)));
    const auto new_1 = static_cast<float>(1.0 - spec.beta_1);
    const auto new_2 = static_cast<float>(1.0 - spec.beta_2);
    const auto epsilon = static_cast<float>(spec.epsilon);
    const float factor = in.factor(), decay = spec.decay * in.learning_rate();
    const float* g = in.block(0);
    float* w = in.block(1);
    float* m = in.block(2);
    float* v = in.block(3);
    float* largest = Amsgrad ? in.block(4) : nullptr;
    std::uint16_t* narrow = in.narrowed_block(spec.narrows, Amsgrad ? 5 : 4);
    update_ranges(threads, spec.count, Amsgrad ? 36 : 28, w, narrow,
                  [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
                    for (std::int64_t i = begin; i < end; ++i) {
                      const float gradient = g[i] * factor;
                      const float decayed = w[i] - w[i] * decay;
                      const float mean = m[i] + (gradient - m[i]) * new_1;
                      const float square = v[i] + (gradient * gradient - v[i]) * new_2;
                      m[i] = mean;
                      v[i] = square;
                      float below = square;
                      if constexpr (Amsgrad) {
                        // Of a NaN and a number, the NaN: as Keras's maximum does.
                        below = square <= largest[i] ? largest[i] : square;
                        largest[i] = below;
                      }
                      w[i] = decayed - rate * mean / (std::sqrt(below) + epsilon);
                    }
                  });
  });
}

template <bool HasMomentum, bool Centered>
KernelPointer compile_rmsprop(const RmspropSpec& spec, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const UpdateOperands in(operands, spec.scaled);
    const float rate = in.learning_rate(), factor = in.factor(),
                momentum = static_cast<float>(spec.momentum);
    const auto rho = static_cast<float>(spec.rho);
    const auto fresh = static_cast<float>(1.0 - spec.rho);
    const auto epsilon = static_cast<float>(spec.epsilon);
    const float decay = spec.decay * rate;
    const float* g = in.block(0);
    float* w = in.block(1);
    float* v = in.block(2);
    float* m = HasMomentum ? in.block(3) : nullptr;
    constexpr int optional_slots = (HasMomentum ? 1 : 0) + (Centered ? 1 : 0);
    float* means = Centered ? in.block(2 + optional_slots) : nullptr;
    std::uint16_t* narrow = in.narrowed_block(spec.narrows, 3 + optional_slots);
    update_ranges(threads, spec.count, 20 + 8 * optional_slots, w, narrow,
                  [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
                    for (std::int64_t i = begin; i < end; ++i) {
                      const float gradient = g[i] * factor;
                      const float decayed = w[i] - w[i] * decay;
                      const float square = rho * v[i] + fresh * (gradient * gradient);
                      v[i] = square;
                      float variance = square;
                      if constexpr (Centered) {
                        const float mean = rho * means[i] + fresh * gradient;
                        means[i] = mean;
                        variance = square - mean * mean;
                      }
                      const float step = rate * gradient / std::sqrt(variance + epsilon);
                      if constexpr (HasMomentum) {
                        const float velocity = momentum * m[i] + step;
                        m[i] = velocity;
                        w[i] = decayed - velocity;
                      } else {
                        w[i] = decayed - step;
                      }
                    }
                  });
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

}  // namespace meshwork::cpu
