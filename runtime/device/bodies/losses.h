// Losses that compare prediction and target element by element, summed, and their gradients, for
// the loops of any device (body_forms.h). Sums are formed in double. Bound by memory traffic.
#pragma once

#include <cmath>

#include "runtime/device/body_forms.h"
#include "runtime/device/class_functions.h"
#include "runtime/device/kernels/losses.h"

namespace meshwork::bodies {

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
struct Match {
  float threshold;
  MESHWORK_HOST_DEVICE double operator()(float p, float t) const {
    return (p > threshold ? 1.0f : 0.0f) == t ? 1.0 : 0.0;
  }
};

struct SmoothedTarget {
  float keep, add;
  explicit SmoothedTarget(float smoothing) : keep(1.0f - smoothing), add(0.5f * smoothing) {}
  MESHWORK_HOST_DEVICE float operator()(float t) const { return t * keep + add; }
};
template <class Math>
struct CrossentropyOfLogit {
  SmoothedTarget smoothed;
  MESHWORK_HOST_DEVICE double operator()(float x, float t) const {
    const float positive = x < 0.0f ? 0.0f : x;
    return static_cast<double>(positive) -
           static_cast<double>(x) * static_cast<double>(smoothed(t)) +
           static_cast<double>(Math::log1p(Math::exp(-fabsf(x))));
  }
};
template <class Math>
struct CrossentropyOfProbability {
  SmoothedTarget smoothed;
  MESHWORK_HOST_DEVICE double operator()(float p, float t) const {
    const float q = clip(p);
    const double weight = static_cast<double>(smoothed(t));
    return -(weight * static_cast<double>(Math::log(q)) +
             (1.0 - weight) * static_cast<double>(Math::log(1.0f - q)));
  }
};
template <class Math>
struct GradientOfLogit {
  float scale;
  SmoothedTarget smoothed;
  MESHWORK_HOST_DEVICE float operator()(float x, float t) const {
    return scale * (Math::sigmoid(x) - smoothed(t));
  }
};
struct GradientOfProbability {
  float scale;
  SmoothedTarget smoothed;
  MESHWORK_HOST_DEVICE float operator()(float p, float t) const {
    const float label = smoothed(t);
    const bool clipped = (p < clip_low) | (p > clip_high);
    const float q = clipped ? 0.5f : p;  // keeps the division away from 0
    const float gradient = scale * ((q - label) / (q * (1.0f - q)));
    return clipped ? 0.0f : gradient;
  }
};

/// Of each `values` values in turn one weight.
struct ValueWeights {
  const float* weights;
  std::int64_t values;
  MESHWORK_HOST_DEVICE float operator()(std::int64_t i) const {
    return weights[values == 1 ? i : i / values];
  }
};
template <class Term>
struct WeightedTerm {
  const float *p, *t;
  ValueWeights weight;
  Term term;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t i) const {
    return static_cast<double>(weight(i)) * term(p[i], t[i]);
  }
};
struct WeightGradient {
  ValueWeights weight;
  float* x;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { x[i] *= weight(i); }
};

/// The sum of term(p, t), weighted if the loss of `spec` is.
template <class Loops, class Term>
auto sum_of_loss(const auto& context, const auto& spec, Term term) {
  const std::int64_t values = spec.values_a_weight;
  if (values == 0) return sum_of_two<Loops>(context, spec.count, spec.scale, term);
  return Loops::sum(context, spec.count, 12, 4, spec.scale, [=](void* const* operands) {
    return WeightedTerm<Term>{at(operands, 0), at(operands, 1), {at(operands, 2), values}, term};
  });
}

template <class Loops>
void add_losses(auto& kernels) {
  using Math = typename Loops::Math;
  kernels.template add<SquaredErrorSpec>([](const SquaredErrorSpec& spec, const auto& context) {
    return sum_of_loss<Loops>(context, spec, SquaredError{});
  });
  kernels.template add<SquaredErrorGradientSpec>(
      [](const SquaredErrorGradientSpec& spec, const auto& context) {
        return map_two<Loops>(context, spec.count, SquaredErrorGradient{2 * spec.scale});
      });
  kernels.template add<AbsoluteErrorSpec>([](const AbsoluteErrorSpec& spec, const auto& context) {
    return sum_of_loss<Loops>(context, spec, AbsoluteError{});
  });
  kernels.template add<WeightGradientSpec>([](const WeightGradientSpec& spec, const auto& context) {
    return Loops::elements(context, spec.count, 8,
                           [values = spec.values_a_weight](void* const* operands) {
                             return WeightGradient{{at(operands, 0), values}, at(operands, 1)};
                           });
  });
  kernels.template add<BinaryMatchSpec>([](const BinaryMatchSpec& spec, const auto& context) {
    return sum_of_loss<Loops>(context, spec, Match{spec.threshold});
  });
  kernels.template add<BinaryCrossentropySpec>(
      [](const BinaryCrossentropySpec& spec, const auto& context) {
        const SmoothedTarget smoothed(spec.smoothing);
        return spec.from_logits
                   ? sum_of_loss<Loops>(context, spec, CrossentropyOfLogit<Math>{smoothed})
                   : sum_of_loss<Loops>(context, spec, CrossentropyOfProbability<Math>{smoothed});
      });
  kernels.template add<BinaryCrossentropyGradientSpec>(
      [](const BinaryCrossentropyGradientSpec& spec, const auto& context) {
        const SmoothedTarget smoothed(spec.smoothing);
        return spec.from_logits ? map_two<Loops>(context, spec.count,
                                                 GradientOfLogit<Math>{spec.scale, smoothed})
                                : map_two<Loops>(context, spec.count,
                                                 GradientOfProbability{spec.scale, smoothed});
      });
}

}  // namespace meshwork::bodies
