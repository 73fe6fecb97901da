// Optimizers: one fused pass over parameters, gradients and slots (kernels/update.h); one launch
// for a whole flat block. What depends on the step alone is worked out once a block of threads,
// from the scalars in device memory, so that nothing of a launch changes from step to step. A
// thread an element; bound by memory traffic: 12 bytes a parameter for plain SGD, 20 with momentum,
// 28 for Adam; 2 more where new values are stored in bfloat16 too.
#pragma once

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/host_device.h"
#include "runtime/device/kernels/update.h"
#include "runtime/device/narrowing.h"

namespace meshwork::cuda {

namespace update_detail {

/// An update that stores the new value in bfloat16 too, if there is a place for it.
template <class Form>
struct Narrowing {
  Form form;
  std::uint16_t* narrow;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, const auto& rates) const {
    form(i, rates);
    if (narrow != nullptr) narrow[i] = narrowed(form.w[i]);
  }
};

}  // namespace update_detail

/// The kernel of the update `spec`.
template <class Spec>
KernelPointer compile_update(const Spec& spec, const Context& context) {
  return with_form(spec, [&]<class Form>(std::type_identity<Form>) {
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      const UpdateOperands in(operands, spec.scaled);
      std::uint16_t* narrow = spec.narrows ? in.narrow_block(spec.blocks()) : nullptr;
      for_elements_prepared(launcher, spec.count, Form::step_rates(spec, in),
                            update_detail::Narrowing<Form>{Form(spec, in), narrow});
    });
  });
}

}  // namespace meshwork::cuda
