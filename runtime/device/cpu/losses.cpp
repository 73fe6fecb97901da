// Losses that compare prediction and target element by element, summed, and their gradients. Sums
// are formed in double in a fixed order; reading is what bounds them.
#include <cmath>

#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/vector_math.h"
#include "runtime/device/kernels/losses.h"

namespace meshwork::cpu {

namespace {

constexpr float clip_low = 1e-7f;
constexpr float clip_high = 1.0f - 1e-7f;

/// *sum = scale * sum of term(p[i], t[i]). Operands: p, t, sum.
template <class Term>
KernelPointer scaled_sum(const Context& context, std::int64_t count, double scale, Term term) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* p = at(operands, 0);
    const float* t = at(operands, 1);
    const auto part_sum = [=](std::int64_t begin, std::int64_t end) {
      return lane_sum(begin, end, [=](std::int64_t i) { return term(p[i], t[i]); });
    };
    *at<double>(operands, 2) = scale * fixed_sum(threads, count, 8, part_sum);
  });
}

/// dp[i] = derivative(p[i], t[i]). Operands: p, t, dp.
template <class Derivative>
KernelPointer derivatives(const Context& context, std::int64_t count, Derivative derivative) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* p = at(operands, 0);
    const float* t = at(operands, 1);
    float* dp = at(operands, 2);
    for_ranges(threads, count, 12, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) dp[i] = derivative(p[i], t[i]);
    });
  });
}

KernelPointer compile(const SquaredErrorSpec& spec, const Context& context) {
  return scaled_sum(context, spec.count, spec.scale, [](float p, float t) {
    const double difference = static_cast<double>(p) - static_cast<double>(t);
    return difference * difference;
  });
}

KernelPointer compile(const SquaredErrorGradientSpec& spec, const Context& context) {
  return derivatives(context, spec.count,
                     [factor = 2 * spec.scale](float p, float t) { return factor * (p - t); });
}

KernelPointer compile(const AbsoluteErrorSpec& spec, const Context& context) {
  return scaled_sum(context, spec.count, spec.scale, [](float p, float t) {
    return std::fabs(static_cast<double>(p) - static_cast<double>(t));
  });
}

KernelPointer compile(const BinaryCrossentropySpec& spec, const Context& context) {
  const float keep = 1.0f - spec.smoothing, add = 0.5f * spec.smoothing;
  if (spec.from_logits) {
    return scaled_sum(context, spec.count, spec.scale, [=](float x, float t) {
      const float smoothed = t * keep + add;
      const float positive = x < 0.0f ? 0.0f : x;
      return static_cast<double>(positive) -
             static_cast<double>(x) * static_cast<double>(smoothed) +
             static_cast<double>(vector_log1p(vector_exp(-std::fabs(x))));
    });
  }
  return scaled_sum(context, spec.count, spec.scale, [=](float p, float t) {
    const float smoothed = t * keep + add;
    const float raised = p < clip_low ? clip_low : p;
    const float q = raised > clip_high ? clip_high : raised;
    return -(static_cast<double>(smoothed) * static_cast<double>(vector_log(q)) +
             (1.0 - static_cast<double>(smoothed)) * static_cast<double>(vector_log(1.0f - q)));
  });
}

KernelPointer compile(const BinaryCrossentropyGradientSpec& spec, const Context& context) {
  const float keep = 1.0f - spec.smoothing, add = 0.5f * spec.smoothing;
  const float scale = spec.scale;
  if (spec.from_logits) {
    return derivatives(context, spec.count, [=](float x, float t) {
      return scale * (vector_sigmoid(x) - (t * keep + add));
    });
  }
  return derivatives(context, spec.count, [=](float p, float t) {
    const float smoothed = t * keep + add;
    const bool clipped = p < clip_low || p > clip_high;
    const float q = clipped ? 0.5f : p;  // keeps the division away from 0
    const float derivative = (q - smoothed) / (q * (1.0f - q));
    return clipped ? 0.0f : scale * derivative;
  });
}

KernelPointer compile(const BinaryMatchSpec& spec, const Context& context) {
  return scaled_sum(context, spec.count, spec.scale,
                    [threshold = spec.threshold](float p, float t) {
                      return (p > threshold ? 1.0f : 0.0f) == t ? 1.0f : 0.0f;
                    });
}

}  // namespace

void add_losses(Kernels& kernels) {
  kernels.add<SquaredErrorSpec, SquaredErrorGradientSpec, AbsoluteErrorSpec, BinaryCrossentropySpec,
              BinaryCrossentropyGradientSpec, BinaryMatchSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu
