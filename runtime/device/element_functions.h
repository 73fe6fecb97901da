// Functions of one element, for the bodies of all devices; activation_functions.h has more. NaN
// passes, so that a diverged run shows.
//
// `Math` has functions of one float as a device computes them: exp, log, log1p, sigmoid, tanh, and
// normal_cdf, the distribution function of the standard normal.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "collectives/with_type.h"
#include "runtime/device/activation_functions.h"
#include "runtime/device/host_device.h"
#include "runtime/device/kernels/elementwise.h"

namespace meshwork::bodies {

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
