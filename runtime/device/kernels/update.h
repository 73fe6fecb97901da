// What optimizers' updates share. An update is one fused pass over a flat block of parameters w and
// their gradients g; its page (adam.h) has it once for all devices.
//
// All: first w -= w * decay * lr where decay is not 0; then the formula of the page, Keras's
// (keras/src/optimizers), with t = step + 1, g read as g * factor if `scaled` (factor: float32
// scalar in memory). Rates are doubles, because 1 - beta is rounded to float32 once: 1 - 0.999f
// would be off by one part in 80 000. If `narrows`, the new w is stored in bfloat16 too, as
// NarrowSpec does it, in the last operand.
//
// A form of an update, as AdamForm<amsgrad>, is an object of plain values and of pointers to the
// blocks that form(i, rates) reads and writes for element i. What depends on the step alone is
// worked out once, ahead of the elements, by what Form::step_rates gives: UpdateRates, or more.
// A specification names its form, or chooses among several by `with_form`. It says how many blocks
// there are: gradients, which are read, and others, which are written too. The block of narrowed
// values is the next.
//
// Multiplying by a factor of 1 and subtracting a decay of 0 are exact, and free beside the traffic
// of memory that bounds an update, so a form serves with and without.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "runtime/device/host_device.h"
#include "runtime/device/kernels/page.h"
#include "runtime/device/kernels/step_scalars.h"
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
    const float rate = scalars_->learning_rate;
    return {rate, factor_ != nullptr ? *factor_ : 1.0f, decay_ * rate};
  }

 private:
  const StepScalars* scalars_;
  const float* factor_;
  float decay_;
};

/// Bytes read and written for a parameter: all blocks are read, all but the gradients written.
template <class Spec>
[[nodiscard]] std::int64_t bytes_a_parameter(const Spec& spec) {
  constexpr std::int64_t float_bytes = sizeof(float);
  return (2 * spec.blocks() - 1) * float_bytes + (spec.narrows ? bfloat16_bytes : 0);
}

/// choose(std::type_identity<Form>()) for the form of `spec`.
template <class Spec, class Choose>
auto with_form(const Spec& spec, const Choose& choose) {
  if constexpr (requires { typename Spec::Form; }) {
    return choose(std::type_identity<typename Spec::Form>());
  } else {
    return spec.with_form(choose);
  }
}

template <class Spec>
[[nodiscard]] std::string words_of_update(const Spec& spec) {
  return spec::words(
      {{spec.decay != 0, "decay"}, {spec.scaled, "scaled"}, {spec.narrows, "narrows"}});
}
template <class Spec>
[[nodiscard]] KernelWork work_of_update(const Spec& spec) {
  return {0, static_cast<double>(bytes_a_parameter(spec) * spec.count)};
}

}  // namespace meshwork
