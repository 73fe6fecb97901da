// Kernels of few values, and sums of powers, for the loops of any device (body_forms.h).
#pragma once

#include <cmath>

#include "runtime/device/body_forms.h"
#include "runtime/device/kernels/normalization.h"
#include "runtime/device/kernels/norms.h"

namespace meshwork::bodies {

struct Magnitude {
  const float* x;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t i) const {
    return fabs(static_cast<double>(x[i]));
  }
};
struct Square {
  const float* x;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
};

struct ClipFactor {
  const double* squared;
  float* factor;
  double clip;
  bool global;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t) const {
    const double norm = sqrt(*squared);
    // Comparisons that let a NaN through.
    const double longer = norm <= clip ? clip : norm;
    const double least = 1.0 / norm >= 1.0 / clip ? 1.0 / clip : 1.0 / norm;
    *factor = static_cast<float>(global ? clip * least : clip / longer);
  }
};

struct NormRatio {
  const double *above, *below;
  float* ratio;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t) const {
    // A NaN is no 0.
    const bool either = (*above == 0.0) | (*below == 0.0);
    *ratio = either ? 1.0f : static_cast<float>(sqrt(*above) / sqrt(*below));
  }
};

struct NormLimits {
  const double* squared;
  float* factor;
  double minimum, maximum, rate;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const double norm = sqrt(squared[i]);
    // Comparisons that let a NaN through.
    const double above = norm < minimum ? minimum : norm;
    const double within = above > maximum ? maximum : above;
    factor[i] = static_cast<float>((rate * within + (1 - rate) * norm) / (norm + 1e-7));
  }
};

struct ZeroDiagonal {
  float* x;
  std::int64_t side;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { x[i * side + i] = 0.0f; }
};

struct Statistics {
  const double* z;
  const float *moving_mean, *moving_variance;
  float *means, *inverses, *new_mean, *new_variance;
  std::int64_t channels;
  double share, momentum, epsilon;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t c) const {
    const double mean = z[c] * share;
    // A NaN stays one.
    const double difference = z[channels + c] * share - mean * mean;
    const double variance = difference < 0 ? 0.0 : difference;
    means[c] = static_cast<float>(mean);
    inverses[c] = static_cast<float>(1 / sqrt(variance + epsilon));
    new_mean[c] =
        static_cast<float>(momentum * static_cast<double>(moving_mean[c]) + (1 - momentum) * mean);
    new_variance[c] = static_cast<float>(momentum * static_cast<double>(moving_variance[c]) +
                                         (1 - momentum) * variance);
  }
};
struct InverseDeviation {
  const float* variance;
  float* inverse;
  double epsilon;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t c) const {
    inverse[c] = static_cast<float>(1 / sqrt(static_cast<double>(variance[c]) + epsilon));
  }
};

template <class Loops>
void add_scalars(auto& kernels) {
  kernels.template add<PowerSumSpec>([](const PowerSumSpec& spec, const auto& context) {
    const auto sum = [&]<class Term>(std::type_identity<Term>) {
      return Loops::sum(context, spec.count, 4, 2, 1.0,
                        [](void* const* operands) { return Term{at(operands, 0)}; });
    };
    return spec.power == 1 ? sum(std::type_identity<Magnitude>())
                           : sum(std::type_identity<Square>());
  });
  kernels.template add<ClipFactorSpec>([](const ClipFactorSpec& spec, const auto& context) {
    return Loops::elements(context, 1, 12, [=](void* const* operands) {
      return ClipFactor{at<const double>(operands, 0), at(operands, 1),
                        static_cast<double>(spec.clip), spec.global};
    });
  });
  kernels.template add<NormRatioSpec>([](const NormRatioSpec&, const auto& context) {
    return Loops::elements(context, 1, 20, [](void* const* operands) {
      return NormRatio{at<const double>(operands, 0), at<const double>(operands, 1),
                       at(operands, 2)};
    });
  });
  kernels.template add<NormLimitsSpec>([](const NormLimitsSpec& spec, const auto& context) {
    return Loops::elements(context, spec.count, 12, [=](void* const* operands) {
      return NormLimits{at<const double>(operands, 0), at(operands, 1), spec.minimum, spec.maximum,
                        spec.rate};
    });
  });
  kernels.template add<ZeroDiagonalSpec>([](const ZeroDiagonalSpec& spec, const auto& context) {
    return Loops::elements(context, spec.side, 4, [=](void* const* operands) {
      return ZeroDiagonal{at(operands, 0), spec.side};
    });
  });
  kernels.template add<ChannelStatisticsSpec>(
      [](const ChannelStatisticsSpec& spec, const auto& context) {
        return Loops::elements(context, spec.channels, 40, [=](void* const* operands) {
          // Of no rows nothing is learnt.
          return Statistics{.z = at<const double>(operands, 0),
                            .moving_mean = at(operands, 1),
                            .moving_variance = at(operands, 2),
                            .means = at(operands, 3),
                            .inverses = at(operands, 4),
                            .new_mean = at(operands, 5),
                            .new_variance = at(operands, 6),
                            .channels = spec.channels,
                            .share = spec.count > 0 ? 1.0 / static_cast<double>(spec.count) : 0.0,
                            .momentum = spec.count > 0 ? spec.momentum : 1.0,
                            .epsilon = spec.epsilon};
        });
      });
  kernels.template add<InverseDeviationSpec>(
      [](const InverseDeviationSpec& spec, const auto& context) {
        return Loops::elements(context, spec.channels, 8, [=](void* const* operands) {
          return InverseDeviation{at(operands, 0), at(operands, 1), spec.epsilon};
        });
      });
}

}  // namespace meshwork::bodies
