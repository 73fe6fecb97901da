// Functions of one number, for the device and for the host. Those of CUDA's library are accurate to
// a few units in the last place over the whole range; NaN stays NaN in all.
#pragma once

#include <cmath>

#include "runtime/device/host_device.h"

namespace meshwork::cuda {

/// As element_functions.h wants them.
struct Math {
  MESHWORK_HOST_DEVICE static float exp(float x) { return expf(x); }
  MESHWORK_HOST_DEVICE static float log(float x) { return logf(x); }
  MESHWORK_HOST_DEVICE static float log1p(float x) { return log1pf(x); }
  MESHWORK_HOST_DEVICE static float tanh(float x) { return tanhf(x); }
  /// 1 / (1 + e^-x), from e^-|x| so that nothing overflows.
  MESHWORK_HOST_DEVICE static float sigmoid(float x) {
    const float e = expf(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
  }
  /// Relatively accurate in its tails too.
  MESHWORK_HOST_DEVICE static float normal_cdf(float x) {
    return 0.5f * erfcf(-0.707106781186547524f * x);
  }
};

}  // namespace meshwork::cuda
