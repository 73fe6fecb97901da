// Losses that compare prediction and target element by element, summed, and their gradients. Sums
// are formed in double in two passes, of up to 1024 blocks and of one. Bound by memory traffic.
#include <cmath>

#include "runtime/device/cuda/functions.h"
#include "runtime/device/cuda/maps.h"
#include "runtime/device/cuda/sums.h"
#include "runtime/device/kernels/losses.h"

namespace meshwork::cuda {

namespace {

constexpr float clip_low = 1e-7f;
constexpr float clip_high = 1.0f - 1e-7f;

template <class Term>
struct TermOfTwo {
  const float *p, *t;
  Term term;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t i) const { return term(p[i], t[i]); }
};

/// *sum = scale * sum of term(p[i], t[i]). Operands: p, t, sum.
template <class Term>
KernelPointer scaled_sum(const Context& context, std::int64_t count, double scale, Term term) {
  const SumParts parts(count);
  return make_kernel(
      [=, launcher = context.launcher](void* const* operands) {
        sum_all(launcher, parts, TermOfTwo<Term>{at(operands, 0), at(operands, 1), term},
                ScaledTo{at<double>(operands, 2), scale},
                parts.parts > 1 ? at<double>(operands, 3) : nullptr);
      },
      parts.bytes());
}

struct SquaredError {
  MESHWORK_HOST_DEVICE double operator()(float p, float t) const {
    const double difference = static_cast<double>(p) - static_cast<double>(t);
    return difference * difference;
  }
};
struct SquaredErrorGradient {
  float factor;
  MESHWORK_HOST_DEVICE float operator()(float p, float t) const { return factor * (p - t); }
};
struct AbsoluteError {
  MESHWORK_HOST_DEVICE double operator()(float p, float t) const {
    return fabs(static_cast<double>(p) - static_cast<double>(t));
  }
};

struct SmoothedTarget {
  float keep, add;
  explicit SmoothedTarget(float smoothing) : keep(1.0f - smoothing), add(0.5f * smoothing) {}
  MESHWORK_HOST_DEVICE float operator()(float t) const { return t * keep + add; }
};
struct CrossentropyOfLogit {
  SmoothedTarget smoothed;
  MESHWORK_HOST_DEVICE double operator()(float x, float t) const {
    const float positive = x < 0.0f ? 0.0f : x;
    return static_cast<double>(positive) -
           static_cast<double>(x) * static_cast<double>(smoothed(t)) +
           static_cast<double>(log1pf(expf(-fabsf(x))));
  }
};
struct CrossentropyOfProbability {
  SmoothedTarget smoothed;
  MESHWORK_HOST_DEVICE double operator()(float p, float t) const {
    const float raised = p < clip_low ? clip_low : p;
    const float q = raised > clip_high ? clip_high : raised;
    const double weight = static_cast<double>(smoothed(t));
    return -(weight * static_cast<double>(logf(q)) +
             (1.0 - weight) * static_cast<double>(logf(1.0f - q)));
  }
};
struct GradientOfLogit {
  float scale;
  SmoothedTarget smoothed;
  MESHWORK_HOST_DEVICE float operator()(float x, float t) const {
    return scale * (Sigmoid{}(x)-smoothed(t));
  }
};
struct GradientOfProbability {
  float scale;
  SmoothedTarget smoothed;
  MESHWORK_HOST_DEVICE float operator()(float p, float t) const {
    if (p < clip_low || p > clip_high) return 0.0f;
    return scale * ((p - smoothed(t)) / (p * (1.0f - p)));
  }
};
struct Match {
  float threshold;
  MESHWORK_HOST_DEVICE double operator()(float p, float t) const {
    return (p > threshold ? 1.0f : 0.0f) == t ? 1.0 : 0.0;
  }
};

KernelPointer compile(const SquaredErrorSpec& spec, const Context& context) {
  return scaled_sum(context, spec.count, spec.scale, SquaredError{});
}

KernelPointer compile(const SquaredErrorGradientSpec& spec, const Context& context) {
  return map_two(context, spec.count, SquaredErrorGradient{2 * spec.scale});
}

KernelPointer compile(const AbsoluteErrorSpec& spec, const Context& context) {
  return scaled_sum(context, spec.count, spec.scale, AbsoluteError{});
}

KernelPointer compile(const BinaryCrossentropySpec& spec, const Context& context) {
  const SmoothedTarget smoothed(spec.smoothing);
  return spec.from_logits
             ? scaled_sum(context, spec.count, spec.scale, CrossentropyOfLogit{smoothed})
             : scaled_sum(context, spec.count, spec.scale, CrossentropyOfProbability{smoothed});
}

KernelPointer compile(const BinaryCrossentropyGradientSpec& spec, const Context& context) {
  const SmoothedTarget smoothed(spec.smoothing);
  return spec.from_logits
             ? map_two(context, spec.count, GradientOfLogit{spec.scale, smoothed})
             : map_two(context, spec.count, GradientOfProbability{spec.scale, smoothed});
}

KernelPointer compile(const BinaryMatchSpec& spec, const Context& context) {
  return scaled_sum(context, spec.count, spec.scale, Match{spec.threshold});
}

}  // namespace

void add_losses(Kernels& kernels) {
  kernels.add<SquaredErrorSpec, SquaredErrorGradientSpec, AbsoluteErrorSpec, BinaryCrossentropySpec,
              BinaryCrossentropyGradientSpec, BinaryMatchSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
