// Functions of one number, for the device and for the host. Those of CUDA's library are accurate to
// a few units in the last place over the whole range; NaN stays NaN in all.
#pragma once

#include <cmath>

#include "runtime/device/host_device.h"

namespace meshwork::cuda {

struct Linear {
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x; }
};
// A NaN passes, so that a diverged run shows.
struct Relu {
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x < 0.0f ? 0.0f : x; }
};
/// Phi(x), the distribution function of the standard normal, relatively accurate in its tails too.
[[nodiscard]] MESHWORK_HOST_DEVICE inline float normal_cdf(float x) {
  return 0.5f * erfcf(-0.707106781186547524f * x);
}
struct Gelu {
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x * normal_cdf(x); }
};
/// 1 / (1 + e^-x), from e^-|x| so that nothing overflows.
struct Sigmoid {
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    const float e = expf(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
  }
};
struct Tanh {
  MESHWORK_HOST_DEVICE float operator()(float x) const { return tanhf(x); }
};

// Gradients: f(value, dy) = dx.
struct LinearGradient {
  MESHWORK_HOST_DEVICE float operator()(float, float dy) const { return dy; }
};
struct ReluGradient {
  MESHWORK_HOST_DEVICE float operator()(float y, float dy) const { return y > 0.0f ? dy : 0.0f; }
};
struct GeluGradient {
  MESHWORK_HOST_DEVICE float operator()(float x, float dy) const {
    constexpr float density_at_zero = 0.398942280401432678f;
    const float density = density_at_zero * expf(-0.5f * x * x);
    return dy * (normal_cdf(x) + x * density);
  }
};
struct SigmoidGradient {
  MESHWORK_HOST_DEVICE float operator()(float y, float dy) const { return dy * (y * (1.0f - y)); }
};
struct TanhGradient {
  MESHWORK_HOST_DEVICE float operator()(float y, float dy) const { return dy * (1.0f - y * y); }
};

[[nodiscard]] MESHWORK_HOST_DEVICE inline bool is_nan(float x) {
  return x != x;
}
/// The larger one; a NaN is larger than everything.
[[nodiscard]] MESHWORK_HOST_DEVICE inline float maximum_or_nan(float a, float b) {
  return a > b || is_nan(a) ? a : b;
}
/// Whether x is the maximum m; NaN is NaN.
[[nodiscard]] MESHWORK_HOST_DEVICE inline bool is_maximum(float x, float m) {
  return x == m || (is_nan(x) && is_nan(m));
}

}  // namespace meshwork::cuda
