// Kernels over this rank's columns of class scores: cross-entropy and its gradients, ranking.
//
// A warp or a block a row where rows are reduced, a thread an element where not; losses over all
// rows are summed in double, in two passes. Bound by memory traffic, for few classes by the
// launches.
// Where a rank has all columns, class_comparison.cu does the same in one launch.
#include <cmath>
#include <limits>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/class_weights.h"
#include "runtime/device/cuda/functions.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/sums.h"
#include "runtime/device/kernels/classes.h"

namespace meshwork::cuda {

namespace {

// ---- from logits ------------------------------------------------------------------------------

template <class Weights>
struct LogitStatistics {
  using Value = ThreeSums;
  const float *x, *m;
  float* z;
  std::int64_t width;
  Weights weight;
  [[nodiscard]] MESHWORK_HOST_DEVICE ThreeSums identity() const { return {0, 0, 0}; }
  [[nodiscard]] MESHWORK_HOST_DEVICE ThreeSums combine(const ThreeSums& a,
                                                       const ThreeSums& b) const {
    return a + b;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return width; }
  [[nodiscard]] MESHWORK_HOST_DEVICE ThreeSums term(std::int64_t row, std::int64_t j) const {
    return logit_terms(x[row * width + j] - m[row], weight(row, j));
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, const ThreeSums& sums) const {
    z[3 * row] = static_cast<float>(sums.exponentials);
    z[3 * row + 1] = static_cast<float>(sums.weighted);
    z[3 * row + 2] = static_cast<float>(sums.weights);
  }
};

struct LogitLoss {
  const float* z;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t row) const {
    return logit_loss(z[3 * row], z[3 * row + 1], z[3 * row + 2]);
  }
};

template <class Weights>
struct LogitGradient {
  const float *x, *m, *z;
  float* dx;
  std::int64_t width;
  float scale;
  Weights weight;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / width, j = i - row * width;
    const float share = z[3 * row + 2] / z[3 * row];
    dx[i] = scale * (expf(x[i] - m[row]) * share - weight(row, j));
  }
};

// ---- from probabilities -----------------------------------------------------------------------

template <class Weights>
struct ProbabilityLoss {
  using Value = TwoSums;
  const float *p, *s;
  double* losses;  // by row
  float* u;
  std::int64_t width;
  Weights weight;
  [[nodiscard]] MESHWORK_HOST_DEVICE TwoSums identity() const { return {0, 0}; }
  [[nodiscard]] MESHWORK_HOST_DEVICE TwoSums combine(const TwoSums& a, const TwoSums& b) const {
    return a + b;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return width; }
  [[nodiscard]] MESHWORK_HOST_DEVICE TwoSums term(std::int64_t row, std::int64_t j) const {
    return probability_terms(p[row * width + j] / s[row], weight(row, j));
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, const TwoSums& sums) const {
    losses[row] = sums.loss;
    u[row] = static_cast<float>(sums.open);
  }
};

struct RowLoss {
  const double* losses;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t row) const { return losses[row]; }
};

template <class Weights>
struct ProbabilityGradient {
  const float *p, *s, *u;
  float* dp;
  std::int64_t width;
  float scale;
  Weights weight;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / width, j = i - row * width;
    const float share = u[row] / s[row];
    const float own = weight(row, j) / p[i];
    dp[i] = scale * (is_clipped(p[i] / s[row]) ? share : share - own);
  }
};

// ---- ranking ----------------------------------------------------------------------------------

struct TargetValue {
  const float* x;
  const std::int32_t* targets;
  float* v;
  std::int64_t first_class, width;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t column = targets[row] - first_class;
    v[row] = column >= 0 && column < width ? x[row * width + column] : 0.0f;
  }
};

struct CountAhead {
  using Value = std::int64_t;
  const float* x;
  const std::int32_t* targets;
  const float* v;
  std::int32_t* c;
  std::int64_t first_class, width;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t identity() const { return 0; }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t combine(std::int64_t a, std::int64_t b) const {
    return a + b;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return width; }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t term(std::int64_t row, std::int64_t j) const {
    const std::int64_t target = targets[row] - first_class;
    return is_ahead(x[row * width + j], v[row], j, target) ? 1 : 0;
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, std::int64_t count) const {
    c[row] = static_cast<std::int32_t>(count);
  }
};

struct IsBelow {
  const std::int32_t* c;
  std::int64_t bound;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t row) const {
    return c[row] < bound ? 1.0 : 0.0;
  }
};

struct FirstMaximum {
  using Value = std::int64_t;
  const float *x, *m;
  std::int32_t* index;
  std::int64_t first_class, width, classes;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t identity() const { return width; }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t combine(std::int64_t a, std::int64_t b) const {
    return a < b ? a : b;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return width; }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t term(std::int64_t row, std::int64_t j) const {
    return is_maximum(x[row * width + j], m[row]) ? j : width;
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, std::int64_t j) const {
    index[row] = static_cast<std::int32_t>(j < width ? first_class + j : classes);
  }
};

KernelPointer compile(const LogitStatisticsSpec& spec, const Context& context) {
  return with_weights(spec.at, [here = spec.at, launcher = context.launcher](void* const* operands,
                                                                             const auto& weights) {
    using Weights = std::remove_cvref_t<decltype(weights)>;
    reduce_rows(launcher, here.rows, here.columns,
                LogitStatistics<Weights>{at(operands, 0), at(operands, 2), at(operands, 3),
                                         here.columns, weights});
  });
}

KernelPointer compile(const LogitLossSpec& spec, const Context& context) {
  const SumParts parts(spec.rows);
  return make_kernel(
      [=, launcher = context.launcher](void* const* operands) {
        sum_all(launcher, parts, LogitLoss{at(operands, 0)}, ScaledTo{at<double>(operands, 1), 1.0},
                parts.parts > 1 ? at<double>(operands, 2) : nullptr);
      },
      parts.bytes());
}

KernelPointer compile(const LogitGradientSpec& spec, const Context& context) {
  return with_weights(
      spec.at, [spec, launcher = context.launcher](void* const* operands, const auto& weights) {
        using Weights = std::remove_cvref_t<decltype(weights)>;
        for_elements(launcher, spec.at.rows * spec.at.columns,
                     LogitGradient<Weights>{at(operands, 0), at(operands, 2), at(operands, 3),
                                            at(operands, 4), spec.at.columns, spec.scale, weights});
      });
}

KernelPointer compile(const ProbabilityLossSpec& spec, const Context& context) {
  // The workspace holds the losses by row, then their partial sums.
  const SumParts parts(spec.at.rows);
  const auto body = [here = spec.at, parts, launcher = context.launcher](void* const* operands,
                                                                         const auto& weights) {
    using Weights = std::remove_cvref_t<decltype(weights)>;
    double* losses = here.rows > 0 ? at<double>(operands, 5) : nullptr;
    reduce_rows(launcher, here.rows, here.columns,
                ProbabilityLoss<Weights>{at(operands, 0), at(operands, 2), losses, at(operands, 4),
                                         here.columns, weights});
    sum_all(launcher, parts, RowLoss{losses}, ScaledTo{at<double>(operands, 3), 1.0},
            losses + here.rows);
  };
  return with_weights(spec.at, body,
                      spec.at.rows * static_cast<std::int64_t>(sizeof(double)) + parts.bytes());
}

KernelPointer compile(const ProbabilityGradientSpec& spec, const Context& context) {
  return with_weights(
      spec.at, [spec, launcher = context.launcher](void* const* operands, const auto& weights) {
        using Weights = std::remove_cvref_t<decltype(weights)>;
        for_elements(
            launcher, spec.at.rows * spec.at.columns,
            ProbabilityGradient<Weights>{at(operands, 0), at(operands, 2), at(operands, 3),
                                         at(operands, 4), spec.at.columns, spec.scale, weights});
      });
}

KernelPointer compile(const TargetValueSpec& spec, const Context& context) {
  return make_kernel([here = spec.at, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, here.rows,
                 TargetValue{at(operands, 0), at<const std::int32_t>(operands, 1), at(operands, 2),
                             here.first_class, here.columns});
  });
}

KernelPointer compile(const CountAheadSpec& spec, const Context& context) {
  return make_kernel([here = spec.at, launcher = context.launcher](void* const* operands) {
    reduce_rows(launcher, here.rows, here.columns,
                CountAhead{at(operands, 0), at<const std::int32_t>(operands, 1), at(operands, 2),
                           at<std::int32_t>(operands, 3), here.first_class, here.columns});
  });
}

KernelPointer compile(const CountBelowSpec& spec, const Context& context) {
  const SumParts parts(spec.rows);
  return make_kernel(
      [=, launcher = context.launcher](void* const* operands) {
        sum_all(launcher, parts, IsBelow{at<const std::int32_t>(operands, 0), spec.k},
                ScaledTo{at<double>(operands, 1), 1.0},
                parts.parts > 1 ? at<double>(operands, 2) : nullptr);
      },
      parts.bytes());
}

KernelPointer compile(const FirstMaximumSpec& spec, const Context& context) {
  return make_kernel([here = spec.at, launcher = context.launcher](void* const* operands) {
    reduce_rows(launcher, here.rows, here.columns,
                FirstMaximum{at(operands, 0), at(operands, 1), at<std::int32_t>(operands, 2),
                             here.first_class, here.columns, here.classes});
  });
}

}  // namespace

void add_classes(Kernels& kernels) {
  kernels.add<LogitStatisticsSpec, LogitLossSpec, LogitGradientSpec, ProbabilityLossSpec,
              ProbabilityGradientSpec, TargetValueSpec, CountAheadSpec, CountBelowSpec,
              FirstMaximumSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
