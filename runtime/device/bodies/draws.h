// Random numbers, for the loops of any device (body_forms.h). Bound by Philox and the inverse of
// the normal distribution, in double precision: some 10 ns an element on one core.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/drawn_block.h"
#include "runtime/device/kernels/draws.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/normal_quantile.h"

namespace meshwork::bodies {

struct NormalValue {
  float* y;
  double mean, deviation;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t element, std::uint32_t word) const {
    const double p = (static_cast<double>(word) + 0.5) * 0x1p-32;
    y[element] = static_cast<float>(mean + deviation * normal_quantile(p));
  }
};
struct UniformValue {
  float* y;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t element, std::uint32_t word) const {
    y[element] = static_cast<float>(word >> 8) * 0x1p-24f;
  }
};
template <class Value>
struct Draw {
  DrawnBlock block;
  const StepScalars* scalars;
  Value value;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    block.each(i, scalars->step, value);
  }
};

template <class Loops>
void add_draws(auto& kernels) {
  kernels.template add<NormalDrawSpec>([](const NormalDrawSpec& spec, const auto& context) {
    const DrawnBlock block = drawn_block(spec.key, spec.global, spec.block);
    // The work on four elements takes as long as so many bytes.
    return Loops::elements(
        context, block.count, 512,
        [=, mean = spec.mean, deviation = spec.deviation](void* const* operands) {
          return Draw<NormalValue>{
              block, at<const StepScalars>(operands, 0), {at(operands, 1), mean, deviation}};
        });
  });
  kernels.template add<UniformDrawSpec>([](const UniformDrawSpec& spec, const auto& context) {
    const DrawnBlock block = drawn_block(spec.key, spec.global, spec.block);
    return Loops::elements(context, block.count, 128, [=](void* const* operands) {
      return Draw<UniformValue>{block, at<const StepScalars>(operands, 0), {at(operands, 1)}};
    });
  });
}

}  // namespace meshwork::bodies
