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
// `Spec::with_form` chooses the form.
//
// Multiplying by a factor of 1 and subtracting a decay of 0 are exact, and free beside the traffic
// of memory that bounds an update, so a form serves with and without.
#pragma once

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
    return {scalars_->learning_rate, factor_ != nullptr ? *factor_ : 1.0f,
            decay_ * scalars_->learning_rate};
  }

 private:
  const StepScalars* scalars_;
  const float* factor_;
  float decay_;
};

/// Bytes read and written for a parameter: all blocks are read, all but the gradients written.
template <class Form>
[[nodiscard]] constexpr std::int64_t bytes_a_parameter(bool narrows) {
  constexpr std::int64_t float_bytes = sizeof(float);
  return (2 * Form::blocks - 1) * float_bytes + (narrows ? bfloat16_bytes : 0);
}

template <class Spec>
[[nodiscard]] std::string words_of_update(const Spec& spec) {
  return spec::words(
      {{spec.decay != 0, "decay"}, {spec.scaled, "scaled"}, {spec.narrows, "narrows"}});
}
template <class Spec>
[[nodiscard]] KernelWork work_of_update(const Spec& spec) {
  return spec.with_form([&]<class Form>(std::type_identity<Form>) -> KernelWork {
    return {0, static_cast<double>(bytes_a_parameter<Form>(spec.narrows) * spec.count)};
  });
}

}  // namespace meshwork
