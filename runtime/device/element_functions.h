// Functions of one element, for the bodies of all devices. NaN passes, so that a diverged run shows.
//
// `Math` has functions of one float as a device computes them: exp, log, log1p, sigmoid, tanh, and
// normal_cdf, the distribution function of the standard normal.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "collectives/with_type.h"
#include "runtime/device/host_device.h"
#include "runtime/device/kernels/elementwise.h"

namespace meshwork::bodies {

struct Linear {
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x; }
};
struct Relu {
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x < 0.0f ? 0.0f : x; }
};
template <class Math>
struct Gelu {
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x * Math::normal_cdf(x); }
};
template <class Math>
struct Sigmoid {
  MESHWORK_HOST_DEVICE float operator()(float x) const { return Math::sigmoid(x); }
};
template <class Math>
struct Tanh {
  MESHWORK_HOST_DEVICE float operator()(float x) const { return Math::tanh(x); }
};

// Gradients: f(value, dy) = dx.
struct LinearGradient {
  MESHWORK_HOST_DEVICE float operator()(float, float dy) const { return dy; }
};
struct ReluGradient {
  MESHWORK_HOST_DEVICE float operator()(float y, float dy) const { return y > 0.0f ? dy : 0.0f; }
};
template <class Math>
struct GeluGradient {
  MESHWORK_HOST_DEVICE float operator()(float x, float dy) const {
    constexpr float density_at_zero = 0.398942280401432678f;
    const float density = density_at_zero * Math::exp(-0.5f * x * x);
    return dy * (Math::normal_cdf(x) + x * density);
  }
};
struct SigmoidGradient {
  MESHWORK_HOST_DEVICE float operator()(float y, float dy) const { return dy * (y * (1.0f - y)); }
};
struct TanhGradient {
  MESHWORK_HOST_DEVICE float operator()(float y, float dy) const { return dy * (1.0f - y * y); }
};

/// make(f) with the function of `activation`, as a type of its own; softmax has none, and was
/// refused before.
template <class Math>
auto with_activation(Activation activation, const auto& make) {
  switch (activation) {
    case Activation::relu:
      return make(Relu{});
    case Activation::gelu:
      return make(Gelu<Math>{});
    case Activation::sigmoid:
      return make(Sigmoid<Math>{});
    case Activation::tanh:
      return make(Tanh<Math>{});
    case Activation::linear:
    case Activation::softmax:
      break;
  }
  return make(Linear{});
}
template <class Math>
auto with_activation_gradient(Activation activation, const auto& make) {
  switch (activation) {
    case Activation::relu:
      return make(ReluGradient{});
    case Activation::gelu:
      return make(GeluGradient<Math>{});
    case Activation::sigmoid:
      return make(SigmoidGradient{});
    case Activation::tanh:
      return make(TanhGradient{});
    case Activation::linear:
    case Activation::softmax:
      break;
  }
  return make(LinearGradient{});
}

/// A gradient f(value, dy) of dy divided.
template <class Gradient>
struct OfDivided {
  Gradient f;
  float divisor;
  MESHWORK_HOST_DEVICE float operator()(float value, float dy) const {
    return f(value, dy / divisor);
  }
};

/// Without a slope by itself, since 0 * -infinity is no 0.
template <bool slopes>
struct Rectified {
  Rectifier r;
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    return x <= r.threshold ? (slopes ? r.slope * (x - r.threshold) : 0.0f)
                            : (x >= r.limit ? r.limit : x);
  }
};
struct RectifiedGradient {
  Rectifier r;
  MESHWORK_HOST_DEVICE float operator()(float x, float dy) const {
    return x <= r.threshold ? r.slope * dy : (x >= r.limit ? 0.0f : dy);
  }
};

struct ScaledAndShifted {
  float scale, offset;
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x * scale + offset; }
};
/// f of any number as float32.
template <class Function>
struct OfFloat {
  Function f;
  template <class From>
  MESHWORK_HOST_DEVICE float operator()(From x) const {
    return f(static_cast<float>(x));
  }
};
/// Any number as int32, cut towards 0; its lowest for what it does not have.
struct ToInt32 {
  template <class From>
  MESHWORK_HOST_DEVICE std::int32_t operator()(From x) const {
    constexpr auto lowest = std::numeric_limits<std::int32_t>::min();
    if constexpr (sizeof(From) > sizeof(std::int32_t) || std::is_floating_point_v<From>) {
      constexpr auto beyond = -static_cast<From>(lowest);  // 2^31
      return x >= -beyond && x < beyond ? static_cast<std::int32_t>(x) : lowest;
    } else {
      return static_cast<std::int32_t>(x);
    }
  }
};
/// make(from, convert) with a number of the type that `spec` converts, and with how it does so.
auto with_conversion(const auto& spec, const auto& make) {
  return with_type(spec.from, [&](auto from) {
    if (spec.to == ElementType::int32) return make(from, ToInt32{});
    if (spec.scale == 1.0f && spec.offset == 0.0f) return make(from, OfFloat<Linear>{});
    return make(from, OfFloat<ScaledAndShifted>{{spec.scale, spec.offset}});
  });
}

}  // namespace meshwork::bodies
