// Activations of one element, each with its gradient: a struct and a place in the list at the end.
//
// f(x) is the value. f.gradient(value, dy) is dy * f'(x), where `value` is f(x) if
// `told_from_output`, else x. Only an activation whose derivative its output tells can be joined to
// the product before it. So all are told from it but those whose output repeats, or loses the
// digits of the derivative. With `keeps_order` a larger number never gives a smaller value, however
// it is rounded.
//
// Formulas, names and constants are those of keras.io/api/layers/activations. NaN passes.
// `Math` is that of element_functions.h.
#pragma once

#include <cmath>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "runtime/device/host_device.h"
#include "runtime/device/kernels/activation.h"

namespace meshwork::bodies {

struct ToldFromOutput {
  static constexpr bool told_from_output = true;
  static constexpr bool keeps_order = false;
};
struct ToldFromInput {
  static constexpr bool told_from_output = false;
  static constexpr bool keeps_order = false;
};

struct Linear : ToldFromOutput {
  static constexpr std::string_view name = "linear";
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x; }
  MESHWORK_HOST_DEVICE float gradient(float, float dy) const { return dy; }
};
struct Relu : ToldFromOutput {
  static constexpr std::string_view name = "relu";
  static constexpr bool keeps_order = true;
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x < 0.0f ? 0.0f : x; }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const { return y > 0.0f ? dy : 0.0f; }
};
struct Relu6 : ToldFromOutput {
  static constexpr std::string_view name = "relu6";
  static constexpr bool keeps_order = true;
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    return x < 0.0f ? 0.0f : (x > 6.0f ? 6.0f : x);
  }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const {
    return y > 0.0f && y < 6.0f ? dy : 0.0f;
  }
};
struct LeakyRelu : ToldFromOutput {
  static constexpr std::string_view name = "leaky_relu";
  static constexpr bool keeps_order = true;
  static constexpr float slope = 0.2f;
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x < 0.0f ? slope * x : x; }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const {
    return y > 0.0f ? dy : slope * dy;
  }
};

/// e^x - 1 for x <= 0, accurate also where it is small.
template <class Math>
[[nodiscard]] MESHWORK_HOST_DEVICE float exp_less_one(float x) {
  const float t = Math::tanh(0.5f * x);
  return 2.0f * t / (1.0f - t);
}
template <class Math>
struct Elu : ToldFromOutput {
  static constexpr std::string_view name = "elu";
  float alpha = 1;
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    const float below = alpha * exp_less_one<Math>(x > 0.0f ? 0.0f : x);
    return x > 0.0f ? x : below;
  }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const {
    return y > 0.0f ? dy : dy * (y + alpha);
  }
};
template <class Math>
struct Selu : ToldFromOutput {
  static constexpr std::string_view name = "selu";
  static constexpr float scale = 1.05070098735548f;
  static constexpr float scaled_alpha = 1.75809934084738f;  // scale * 1.67326324235438
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    const float below = scaled_alpha * exp_less_one<Math>(x > 0.0f ? 0.0f : x);
    return x > 0.0f ? scale * x : below;
  }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const {
    return y > 0.0f ? scale * dy : dy * (y + scaled_alpha);
  }
};

template <class Math>
struct Gelu : ToldFromInput {
  static constexpr std::string_view name = "gelu";
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x * Math::normal_cdf(x); }
  MESHWORK_HOST_DEVICE float gradient(float x, float dy) const {
    constexpr float density_at_zero = 0.398942280401432678f;
    const float density = density_at_zero * Math::exp(-0.5f * x * x);
    return dy * (Math::normal_cdf(x) + x * density);
  }
};
/// x / 2 * (1 + tanh(u)) = x * sigmoid(2 u), u = sqrt(2 / pi) * (x + 0.044715 x^3).
template <class Math>
struct GeluTanh : ToldFromInput {
  static constexpr std::string_view name = "gelu_tanh";
  static constexpr float twice = 1.59576912160573f;  // 2 * sqrt(2 / pi)
  static constexpr float cubic = 0.044715f;
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    return x * Math::sigmoid(twice * x * (1.0f + cubic * x * x));
  }
  MESHWORK_HOST_DEVICE float gradient(float x, float dy) const {
    const float square = cubic * x * x;
    const float s = Math::sigmoid(twice * x * (1.0f + square));
    return dy * s * (1.0f + x * (1.0f - s) * twice * (1.0f + 3.0f * square));
  }
};
template <class Math>
struct Silu : ToldFromInput {
  static constexpr std::string_view name = "silu";
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x * Math::sigmoid(x); }
  MESHWORK_HOST_DEVICE float gradient(float x, float dy) const {
    const float s = Math::sigmoid(x);
    return dy * s * (1.0f + x * (1.0f - s));
  }
};
/// x * tanh(softplus(x)), and tanh(log(1 + e)) = n / (n + 2) with n = e * (e + 2).
template <class Math>
struct Mish : ToldFromInput {
  static constexpr std::string_view name = "mish";
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    const float e = Math::exp(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f);
    return x * (n / (n + 2.0f));
  }
  MESHWORK_HOST_DEVICE float gradient(float x, float dy) const {
    const float e = Math::exp(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f);
    // 1 - tanh^2 = 4 (n + 1) / (n + 2)^2, sigmoid(x) = e / (1 + e), n + 1 = (1 + e)^2.
    const float slope = 4.0f * e * (1.0f + e) / ((n + 2.0f) * (n + 2.0f));
    return dy * (n / (n + 2.0f) + x * slope);
  }
};

template <class Math>
struct Sigmoid : ToldFromOutput {
  static constexpr std::string_view name = "sigmoid";
  MESHWORK_HOST_DEVICE float operator()(float x) const { return Math::sigmoid(x); }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const { return dy * (y * (1.0f - y)); }
};
template <class Math>
struct LogSigmoid : ToldFromInput {
  static constexpr std::string_view name = "log_sigmoid";
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    const float magnitude = x < 0.0f ? -x : x;
    return (x < 0.0f ? x : 0.0f) - Math::log1p(Math::exp(-magnitude));
  }
  MESHWORK_HOST_DEVICE float gradient(float x, float dy) const { return dy * Math::sigmoid(-x); }
};
struct HardSigmoid : ToldFromOutput {
  static constexpr std::string_view name = "hard_sigmoid";
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    return x <= -3.0f ? 0.0f : (x >= 3.0f ? 1.0f : (x + 3.0f) / 6.0f);
  }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const {
    return y > 0.0f && y < 1.0f ? dy / 6.0f : 0.0f;
  }
};
struct SparseSigmoid : ToldFromOutput {
  static constexpr std::string_view name = "sparse_sigmoid";
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    return x <= -1.0f ? 0.0f : (x >= 1.0f ? 1.0f : 0.5f * (x + 1.0f));
  }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const {
    return y > 0.0f && y < 1.0f ? 0.5f * dy : 0.0f;
  }
};
struct HardSilu : ToldFromInput {
  static constexpr std::string_view name = "hard_silu";
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x * HardSigmoid()(x); }
  MESHWORK_HOST_DEVICE float gradient(float x, float dy) const {
    return x <= -3.0f ? 0.0f : (x >= 3.0f ? dy : dy * (2.0f * x + 3.0f) / 6.0f);
  }
};

template <class Math>
struct Tanh : ToldFromOutput {
  static constexpr std::string_view name = "tanh";
  MESHWORK_HOST_DEVICE float operator()(float x) const { return Math::tanh(x); }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const { return dy * (1.0f - y * y); }
};
struct HardTanh : ToldFromOutput {
  static constexpr std::string_view name = "hard_tanh";
  static constexpr bool keeps_order = true;
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    return x < -1.0f ? -1.0f : (x > 1.0f ? 1.0f : x);
  }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const {
    return y > -1.0f && y < 1.0f ? dy : 0.0f;
  }
};
template <class Math>
struct TanhShrink : ToldFromInput {
  static constexpr std::string_view name = "tanh_shrink";
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x - Math::tanh(x); }
  MESHWORK_HOST_DEVICE float gradient(float x, float dy) const {
    const float t = Math::tanh(x);
    return dy * (t * t);
  }
};
struct Softsign : ToldFromOutput {
  static constexpr std::string_view name = "softsign";
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x / (1.0f + (x < 0.0f ? -x : x)); }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const {
    const float root = 1.0f - (y < 0.0f ? -y : y);  // 1 / (1 + |x|)
    return dy * (root * root);
  }
};

template <class Math>
struct Softplus : ToldFromInput {
  static constexpr std::string_view name = "softplus";
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    const float magnitude = x < 0.0f ? -x : x;
    return (x < 0.0f ? 0.0f : x) + Math::log1p(Math::exp(-magnitude));
  }
  MESHWORK_HOST_DEVICE float gradient(float x, float dy) const { return dy * Math::sigmoid(x); }
};
struct Squareplus : ToldFromOutput {
  static constexpr std::string_view name = "squareplus";
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    const float root = sqrtf(x * x + 4.0f);
    // As y * (y - x) = 1, which loses nothing where x is negative.
    return x < 0.0f ? 2.0f / (root - x) : 0.5f * (x + root);
  }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const {
    return dy / (1.0f + 1.0f / (y * y));
  }
};
struct SparsePlus : ToldFromOutput {
  static constexpr std::string_view name = "sparse_plus";
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    return x <= -1.0f ? 0.0f : (x >= 1.0f ? x : 0.25f * (x + 1.0f) * (x + 1.0f));
  }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const {
    return y >= 1.0f ? dy : dy * sqrtf(y);
  }
};
template <class Math>
struct Exponential : ToldFromOutput {
  static constexpr std::string_view name = "exponential";
  MESHWORK_HOST_DEVICE float operator()(float x) const { return Math::exp(x); }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const { return dy * y; }
};
struct SoftShrink : ToldFromOutput {
  static constexpr std::string_view name = "soft_shrink";
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    return x > 0.5f ? x - 0.5f : (x < -0.5f ? x + 0.5f : x * 0.0f);
  }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const { return y != 0.0f ? dy : 0.0f; }
};
struct HardShrink : ToldFromOutput {
  static constexpr std::string_view name = "hard_shrink";
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    return x >= -0.5f && x <= 0.5f ? 0.0f : x;
  }
  MESHWORK_HOST_DEVICE float gradient(float y, float dy) const { return y != 0.0f ? dy : 0.0f; }
};

template <class... Functions>
struct FunctionList {
  static constexpr std::size_t size = sizeof...(Functions);
  static constexpr std::string_view names[] = {Functions::name...};
  static constexpr bool told_from_output[] = {Functions::told_from_output...};
  static constexpr bool keeps_order[] = {Functions::keeps_order...};

  /// make(f) with the function at `place`, as a type of its own; `alpha` is its parameter, if it
  /// has one.
  static auto with(std::size_t place, float alpha, const auto& make) {
    decltype(make(Linear{})) made{};
    std::size_t at = 0;
    (static_cast<void>(at++ == place && (made = make(with_alpha<Functions>(alpha)), true)), ...);
    return made;
  }

 private:
  template <class Function>
  static Function with_alpha(float alpha) {
    Function f;
    if constexpr (requires { f.alpha; }) f.alpha = alpha;
    return f;
  }
};

/// Those of the enumeration, in its order; softmax, its last, is not elementwise.
template <class Math>
using ActivationFunctions =
    FunctionList<Linear, Relu, Relu6, LeakyRelu, Elu<Math>, Selu<Math>, Gelu<Math>, GeluTanh<Math>,
                 Silu<Math>, Mish<Math>, Sigmoid<Math>, LogSigmoid<Math>, HardSigmoid,
                 SparseSigmoid, HardSilu, Tanh<Math>, HardTanh, TanhShrink<Math>, Softsign,
                 Softplus<Math>, Squareplus, SparsePlus, Exponential<Math>, SoftShrink, HardShrink>;
static_assert(ActivationFunctions<void>::size == static_cast<std::size_t>(Activation::softmax));

/// make(f) with the function of `activation`, which is elementwise.
template <class Math>
auto with_activation(Activation activation, float alpha, const auto& make) {
  return ActivationFunctions<Math>::with(static_cast<std::size_t>(activation), alpha, make);
}

/// The gradient of f, of dy as it is or divided.
template <class Function>
struct GradientOf {
  Function f;
  MESHWORK_HOST_DEVICE float operator()(float value, float dy) const {
    return f.gradient(value, dy);
  }
};
template <class Function>
struct GradientOfDivided {
  Function f;
  float divisor;
  MESHWORK_HOST_DEVICE float operator()(float value, float dy) const {
    return f.gradient(value, dy / divisor);
  }
};

}  // namespace meshwork::bodies
