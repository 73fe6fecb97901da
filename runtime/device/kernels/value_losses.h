// Losses of values taken one by one, as functions of a prediction p and a target t.
//
// A function has a `name`, what a value gives (`term`) and the derivative of that by p (`slope`).
// For each follow two kernels: the sum of what all values give, with weights or without (losses.h),
// and the gradient of that sum without weights. One more loss is one more function, in the list at
// the end. `Math` has the functions of the device (element_functions.h). Where a derivative does
// not exist, at a kink, it is 0. A NaN stays one.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/host_device.h"
#include "runtime/device/kernels/losses.h"

namespace meshwork {

/// loss (float64 scalar) = scale * sum of the terms. Operands: p, t, [weights], loss.
template <class Function>
struct ValueLossSpec {
  std::int64_t count = 0;
  double scale = 1;
  Function function = {};
  std::int64_t values_a_weight = 0;  // 0: no weights
  [[nodiscard]] std::string text() const {
    return spec::sized(Function::name, {count}) + spec::words({{values_a_weight > 0, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::of_loss(count, values_a_weight); }
};
/// dp = scale * slope. Operands: p, t, dp.
template <class Function>
struct ValueSlopeSpec {
  std::int64_t count = 0;
  float scale = 1;
  Function function = {};
  [[nodiscard]] std::string text() const {
    return spec::sized(std::string(Function::name) + " gradient", {count});
  }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
};

/// Keras's epsilon.
constexpr float loss_epsilon = 1e-7f;

[[nodiscard]] MESHWORK_HOST_DEVICE inline float at_least_epsilon(float x) {
  return x < loss_epsilon ? loss_epsilon : x;
}

/// (p - t)^2 / 2 up to a distance of delta, from there on delta |p - t| - delta^2 / 2.
struct HuberFunction {
  static constexpr const char* name = "huber";
  float delta = 1;
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(float p, float t) const {
    const double distance = fabs(static_cast<double>(p) - static_cast<double>(t));
    const double limit = static_cast<double>(delta);
    return distance <= limit ? 0.5 * distance * distance : limit * distance - 0.5 * limit * limit;
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float slope(float p, float t) const {
    const float difference = p - t;
    return difference < -delta ? -delta : (difference > delta ? delta : difference);
  }
};

/// log(cosh(p - t)), as |p - t| + log(1 + exp(-2 |p - t|)) - log(2).
struct LogCoshFunction {
  static constexpr const char* name = "log cosh";
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(float p, float t) const {
    const float distance = fabsf(p - t);
    // Near 0 the three would cancel.
    const double square = static_cast<double>(distance) * static_cast<double>(distance);
    const double far = static_cast<double>(distance) +
                       static_cast<double>(Math::log1p(Math::exp(-2.0f * distance))) -
                       0.69314718055994531;
    return distance < 0.05f ? square * (0.5 - square / 12.0) : far;
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float slope(float p, float t) const {
    return Math::tanh(p - t);
  }
};

/// 100 |p - t| / max(|t|, epsilon).
struct PercentageFunction {
  static constexpr const char* name = "absolute percentage error";
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(float p, float t) const {
    return 100.0 * fabs(static_cast<double>(p) - static_cast<double>(t)) /
           static_cast<double>(at_least_epsilon(fabsf(t)));
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float slope(float p, float t) const {
    const float difference = p - t;
    const float sign = difference > 0.0f ? 1.0f : (difference < 0.0f ? -1.0f : difference);
    return 100.0f * sign / at_least_epsilon(fabsf(t));
  }
};

/// (log(1 + max(p, epsilon)) - log(1 + max(t, epsilon)))^2.
struct SquaredLogarithmicFunction {
  static constexpr const char* name = "squared logarithmic error";
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE static float difference(float p, float t) {
    return Math::log1p(at_least_epsilon(p)) - Math::log1p(at_least_epsilon(t));
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(float p, float t) const {
    const double logarithms = static_cast<double>(difference<Math>(p, t));
    return logarithms * logarithms;
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float slope(float p, float t) const {
    const float gradient = 2.0f * difference<Math>(p, t) / (1.0f + at_least_epsilon(p));
    return p < loss_epsilon ? 0.0f : gradient;
  }
};

/// p - t log(p + epsilon).
struct PoissonFunction {
  static constexpr const char* name = "poisson";
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(float p, float t) const {
    return static_cast<double>(p) -
           static_cast<double>(t) * static_cast<double>(Math::log(p + loss_epsilon));
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float slope(float p, float t) const {
    return 1.0f - t / (p + loss_epsilon);
  }
};

/// t log(t / p), both clipped to [epsilon, 1].
struct DivergenceFunction {
  static constexpr const char* name = "kl divergence";
  [[nodiscard]] MESHWORK_HOST_DEVICE static float clipped(float x) {
    return x > 1.0f ? 1.0f : at_least_epsilon(x);
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(float p, float t) const {
    const float weight = clipped(t);
    return static_cast<double>(weight) *
           static_cast<double>(Math::log(weight) - Math::log(clipped(p)));
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float slope(float p, float t) const {
    const float gradient = -clipped(t) / clipped(p);
    return (p < loss_epsilon) | (p > 1.0f) ? 0.0f : gradient;
  }
};

/// max(1 - t p, 0), or the square of that; t is -1 or 1, and a 0 stands for -1.
template <bool squared>
struct HingeFunction {
  static constexpr const char* name = squared ? "squared hinge" : "hinge";
  [[nodiscard]] MESHWORK_HOST_DEVICE static float side(float t) { return t == 0.0f ? -1.0f : t; }
  [[nodiscard]] MESHWORK_HOST_DEVICE static float margin(float p, float t) {
    const float left = 1.0f - side(t) * p;
    return left < 0.0f ? 0.0f : left;
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(float p, float t) const {
    const double left = static_cast<double>(margin(p, t));
    return squared ? left * left : left;
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float slope(float p, float t) const {
    const float left = margin(p, t);
    const float gradient = squared ? -2.0f * side(t) * left : -side(t);
    return left == 0.0f ? 0.0f : gradient;
  }
};

/// Binary cross-entropy times (1 - q)^gamma, q what the right side is given: t p + (1 - t)(1 - p).
/// With t' = t keep + add; of logits p = sigmoid(x). Where classes are balanced, times t alpha +
/// (1 - t)(1 - alpha) too.
template <bool of_logits>
struct FocalFunction {
  static constexpr const char* name =
      of_logits ? "binary focal crossentropy from logits" : "binary focal crossentropy";
  float gamma = 2, alpha = 0.25f;
  bool balanced = false;
  float smoothing = 0;

  struct Parts {
    float p, t, clipped, away, weight;  // away: 1 - q
  };
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE Parts parts(float x, float target) const {
    const float p = of_logits ? Math::sigmoid(x) : x;
    const float t = target * (1.0f - smoothing) + 0.5f * smoothing;
    constexpr float low = loss_epsilon, high = 1.0f - loss_epsilon;
    const float away = t * (1.0f - p) + (1.0f - t) * p;
    return {p, t, p < low ? low : (p > high ? high : p), away < 0.0f ? 0.0f : away,
            balanced ? t * alpha + (1.0f - t) * (1.0f - alpha) : 1.0f};
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE static float crossentropy(const Parts& of) {
    return -(of.t * Math::log(of.clipped) + (1.0f - of.t) * Math::log(1.0f - of.clipped));
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(float x, float target) const {
    const Parts of = parts<Math>(x, target);
    return static_cast<double>(of.weight * powf(of.away, gamma)) *
           static_cast<double>(crossentropy<Math>(of));
  }
  template <class Math>
  [[nodiscard]] MESHWORK_HOST_DEVICE float slope(float x, float target) const {
    const Parts of = parts<Math>(x, target);
    const float by_sigmoid = of_logits ? of.p * (1.0f - of.p) : 1.0f;
    const bool is_clipped = (of.p < loss_epsilon) | (of.p > 1.0f - loss_epsilon);
    const float of_crossentropy =
        is_clipped ? 0.0f
                   : (of.clipped - of.t) / (of_logits ? 1.0f : of.clipped * (1.0f - of.clipped));
    const float of_factor = of.away > 0.0f && gamma != 0.0f ? gamma * powf(of.away, gamma - 1.0f) *
                                                                  (1.0f - 2.0f * of.t) * by_sigmoid
                                                            : 0.0f;
    return of.weight *
           (of_factor * crossentropy<Math>(of) + powf(of.away, gamma) * of_crossentropy);
  }
};

template <class... Functions>
struct ValueLosses {
  /// Calls enter(function) with each.
  static void each(auto enter) { (enter(Functions{}), ...); }
};
/// Those that each device has.
using EveryValueLoss =
    ValueLosses<HuberFunction, LogCoshFunction, PercentageFunction, SquaredLogarithmicFunction,
                PoissonFunction, DivergenceFunction, HingeFunction<false>, HingeFunction<true>,
                FocalFunction<false>, FocalFunction<true>>;

}  // namespace meshwork
