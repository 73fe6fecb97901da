// Kernels whose result's elements are functions of the operands' elements at the same place.
#pragma once

#include <cstdint>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/host_device.h"

namespace meshwork::cuda {

template <class Function>
struct MapOne {
  const float* x;
  float* y;
  Function f;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = f(x[i]); }
};

template <class Function>
struct MapTwo {
  const float* a;
  const float* b;
  float* y;
  Function f;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = f(a[i], b[i]); }
};

/// y[i] = f(x[i]). Operands: x, y.
template <class Function>
[[nodiscard]] KernelPointer map_one(const Context& context, std::int64_t count, Function f) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, count, MapOne<Function>{at(operands, 0), at(operands, 1), f});
  });
}

/// y[i] = f(a[i], b[i]). Operands: a, b, y.
template <class Function>
[[nodiscard]] KernelPointer map_two(const Context& context, std::int64_t count, Function f) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, count,
                 MapTwo<Function>{at(operands, 0), at(operands, 1), at(operands, 2), f});
  });
}

}  // namespace meshwork::cuda
