// Kernels over this rank's columns of class scores: cross-entropy and its gradients, ranking.
//
// A warp or a block a row where rows are reduced, a thread an element where not; losses over all
// rows are summed in double, in two passes. Bound by memory traffic, for few classes by the
// launches.
//
// Whether targets are class numbers or weights is decided when the kernel is made: each function is
// written once, on `weight(row, j)`, the target weight of a column after smoothing.
#include <cmath>
#include <limits>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/compile.h"
#include "runtime/device/cuda/functions.h"
#include "runtime/device/cuda/sums.h"

namespace meshwork::cuda {

namespace {

constexpr float clip_low = 1e-7f;
constexpr float clip_high = 1.0f - 1e-7f;

/// The class that a sparse target names; -1 for what cannot be one.
MESHWORK_HOST_DEVICE std::int64_t class_number(float target) {
  constexpr float beyond = 1e15f;
  return target >= 0.0f && target < beyond ? static_cast<std::int64_t>(target) : -1;
}

/// t (1 - s) + s / classes.
struct Smoothing {
  float keep, add;
};
Smoothing smoothing_of(const ClassColumns& at) {
  return {1.0f - at.smoothing, at.smoothing == 0.0f
                                   ? 0.0f
                                   : static_cast<float>(static_cast<double>(at.smoothing) /
                                                        static_cast<double>(at.classes))};
}

/// The weights when targets are class numbers.
struct SparseWeights {
  const float* targets;
  std::int64_t first_class, columns;
  Smoothing smoothing;
  MESHWORK_HOST_DEVICE float operator()(std::int64_t row, std::int64_t j) const {
    return (j == class_number(targets[row]) - first_class ? smoothing.keep : 0.0f) + smoothing.add;
  }
};
/// The weights when they are given.
struct DenseWeights {
  const float* targets;
  std::int64_t first_class, columns;
  Smoothing smoothing;
  MESHWORK_HOST_DEVICE float operator()(std::int64_t row, std::int64_t j) const {
    return targets[row * columns + j] * smoothing.keep + smoothing.add;
  }
};

/// A kernel that calls body(operands, weights). Targets: operand 1.
template <class Body>
KernelPointer with_weights(const ClassColumns& columns, Body body, std::int64_t workspace = 0) {
  const Smoothing smoothing = smoothing_of(columns);
  if (columns.target == TargetKind::sparse) {
    return make_kernel(
        [=](void* const* operands) {
          body(operands,
               SparseWeights{at(operands, 1), columns.first_class, columns.columns, smoothing});
        },
        workspace);
  }
  return make_kernel(
      [=](void* const* operands) {
        body(operands,
             DenseWeights{at(operands, 1), columns.first_class, columns.columns, smoothing});
      },
      workspace);
}

// A NaN is not clipped, so that it shows.
MESHWORK_HOST_DEVICE bool is_clipped(float q) {
  return q < clip_low || q > clip_high;
}
MESHWORK_HOST_DEVICE float clip(float q) {
  return q < clip_low ? clip_low : (q > clip_high ? clip_high : q);
}

// ---- from logits ------------------------------------------------------------------------------

struct ThreeSums {
  double exponentials, weighted, weights;
};

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
    return {a.exponentials + b.exponentials, a.weighted + b.weighted, a.weights + b.weights};
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return width; }
  [[nodiscard]] MESHWORK_HOST_DEVICE ThreeSums term(std::int64_t row, std::int64_t j) const {
    const float below = x[row * width + j] - m[row];
    const float t = weight(row, j);
    // A class without weight does not count, also where its logit is -infinity.
    return {static_cast<double>(expf(below)),
            t == 0.0f ? 0.0 : static_cast<double>(t) * static_cast<double>(below),
            static_cast<double>(t)};
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
    const float* of_row = z + 3 * row;
    return log(static_cast<double>(of_row[0])) * static_cast<double>(of_row[2]) -
           static_cast<double>(of_row[1]);
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

struct TwoSums {
  double loss, open;
};

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
    return {a.loss + b.loss, a.open + b.open};
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return width; }
  [[nodiscard]] MESHWORK_HOST_DEVICE TwoSums term(std::int64_t row, std::int64_t j) const {
    const float q = p[row * width + j] / s[row], t = weight(row, j);
    return {static_cast<double>(-t * logf(clip(q))), is_clipped(q) ? 0.0 : static_cast<double>(t)};
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
  const float *x, *targets;
  float* v;
  std::int64_t first_class, width;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t column = class_number(targets[row]) - first_class;
    v[row] = column >= 0 && column < width ? x[row * width + column] : 0.0f;
  }
};

struct CountAhead {
  using Value = std::int64_t;
  const float *x, *targets, *v;
  float* c;
  std::int64_t first_class, width;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t identity() const { return 0; }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t combine(std::int64_t a, std::int64_t b) const {
    return a + b;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return width; }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t term(std::int64_t row, std::int64_t j) const {
    const std::int64_t target = class_number(targets[row]) - first_class;
    const float value = v[row], other = x[row * width + j];
    const bool ahead =
        is_nan(other) || is_nan(value) || other > value || (other == value && j < target);
    return ahead && j != target ? 1 : 0;
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, std::int64_t count) const {
    c[row] = static_cast<float>(count);
  }
};

struct IsBelow {
  const float* c;
  float bound;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t row) const {
    return c[row] < bound ? 1.0 : 0.0;
  }
};

struct FirstMaximum {
  using Value = std::int64_t;
  const float *x, *m;
  float* index;
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
    index[row] = static_cast<float>(j < width ? first_class + j : classes);
  }
};

}  // namespace

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
                 TargetValue{at(operands, 0), at(operands, 1), at(operands, 2), here.first_class,
                             here.columns});
  });
}

KernelPointer compile(const CountAheadSpec& spec, const Context& context) {
  return make_kernel([here = spec.at, launcher = context.launcher](void* const* operands) {
    reduce_rows(launcher, here.rows, here.columns,
                CountAhead{at(operands, 0), at(operands, 1), at(operands, 2), at(operands, 3),
                           here.first_class, here.columns});
  });
}

KernelPointer compile(const CountBelowSpec& spec, const Context& context) {
  const SumParts parts(spec.rows);
  return make_kernel(
      [=, launcher = context.launcher](void* const* operands) {
        sum_all(launcher, parts, IsBelow{at(operands, 0), static_cast<float>(spec.k)},
                ScaledTo{at<double>(operands, 1), 1.0},
                parts.parts > 1 ? at<double>(operands, 2) : nullptr);
      },
      parts.bytes());
}

KernelPointer compile(const FirstMaximumSpec& spec, const Context& context) {
  return make_kernel([here = spec.at, launcher = context.launcher](void* const* operands) {
    reduce_rows(launcher, here.rows, here.columns,
                FirstMaximum{at(operands, 0), at(operands, 1), at(operands, 2), here.first_class,
                             here.columns, here.classes});
  });
}

}  // namespace meshwork::cuda
