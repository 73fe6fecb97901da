// Reductions over a middle dimension, as global pooling needs them, and their gradients. Bound by
// memory traffic.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/folds.h"
#include "runtime/device/kernels/middle.h"

namespace meshwork::bodies {

struct MiddleSum {
  using Fold = folds::Sum;
  const float* x;
  float* y;
  double scale;
  [[nodiscard]] MESHWORK_HOST_DEVICE float term(std::int64_t, std::int64_t i) const { return x[i]; }
  MESHWORK_HOST_DEVICE void finish(std::int64_t result, double sum) const {
    y[result] = static_cast<float>(scale * sum);
  }
};
struct MiddleSquares {
  using Fold = folds::Sum;
  const float* x;
  double* s;
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(std::int64_t, std::int64_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t result, double sum) const { s[result] = sum; }
};
struct MiddleMaximum {
  using Fold = folds::Maximum;
  const float* x;
  float* m;
  [[nodiscard]] MESHWORK_HOST_DEVICE float term(std::int64_t, std::int64_t i) const { return x[i]; }
  MESHWORK_HOST_DEVICE void finish(std::int64_t result, float value) const { m[result] = value; }
};
struct MiddleTies {
  using Fold = folds::Added<std::int32_t>;
  const float *x, *m;
  float* t;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int32_t term(std::int64_t result, std::int64_t i) const {
    return is_maximum(x[i], m[result]) ? 1 : 0;
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t result, std::int32_t count) const {
    t[result] = static_cast<float>(count);
  }
};
struct MiddleBroadcast {
  const float* x;
  float* y;
  float scale;
  [[nodiscard]] MESHWORK_HOST_DEVICE float share(std::int64_t result) const {
    return scale * x[result];
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, std::int64_t, float share) const {
    y[i] = share;
  }
};
struct MiddleScale {
  const float *x, *factor;
  float* y;
  [[nodiscard]] MESHWORK_HOST_DEVICE float share(std::int64_t result) const {
    return factor[result];
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, std::int64_t, float share) const {
    y[i] = x[i] * share;
  }
};
struct MiddleMaximumGradient {
  const float *x, *m, *t, *dy;
  float* dx;
  [[nodiscard]] MESHWORK_HOST_DEVICE float share(std::int64_t result) const {
    return dy[result] / t[result];
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i, std::int64_t result, float share) const {
    dx[i] = is_maximum(x[i], m[result]) ? share : 0.0f;
  }
};

template <class Loops>
void add_middle(auto& kernels) {
  kernels.template add<MiddleSumSpec>([](const MiddleSumSpec& spec, const auto& context) {
    return Loops::middle(context, spec.at, [=](void* const* operands) {
      return MiddleSum{at(operands, 0), at(operands, 1), static_cast<double>(spec.scale)};
    });
  });
  kernels.template add<MiddleSquaresSpec>([](const MiddleSquaresSpec& spec, const auto& context) {
    return Loops::middle(context, spec.at, [](void* const* operands) {
      return MiddleSquares{at(operands, 0), at<double>(operands, 1)};
    });
  });
  kernels.template add<MiddleMaximumSpec>([](const MiddleMaximumSpec& spec, const auto& context) {
    return Loops::middle(context, spec.at, [](void* const* operands) {
      return MiddleMaximum{at(operands, 0), at(operands, 1)};
    });
  });
  kernels.template add<MiddleTiesSpec>([](const MiddleTiesSpec& spec, const auto& context) {
    return Loops::middle(context, spec.at, [](void* const* operands) {
      return MiddleTies{at(operands, 0), at(operands, 1), at(operands, 2)};
    });
  });
  kernels.template add<MiddleBroadcastSpec>(
      [](const MiddleBroadcastSpec& spec, const auto& context) {
        return Loops::spread(context, spec.at, 4, [=](void* const* operands) {
          return MiddleBroadcast{at(operands, 0), at(operands, 1), spec.scale};
        });
      });
  kernels.template add<MiddleScaleSpec>([](const MiddleScaleSpec& spec, const auto& context) {
    return Loops::spread(context, spec.at, 8, [](void* const* operands) {
      return MiddleScale{at(operands, 0), at(operands, 1), at(operands, 2)};
    });
  });
  kernels.template add<MiddleMaximumGradientSpec>(
      [](const MiddleMaximumGradientSpec& spec, const auto& context) {
        return Loops::spread(context, spec.at, 8, [](void* const* operands) {
          return MiddleMaximumGradient{at(operands, 0), at(operands, 1), at(operands, 2),
                                       at(operands, 3), at(operands, 4)};
        });
      });
}

}  // namespace meshwork::bodies
