// Cross-entropy of this rank's columns of class scores; what else is done with them are bodies
// (bodies/classes.h). Where a rank has all columns, class_comparison.cu does the same in one launch.
//
// A warp or a block a row; losses over all rows are summed in double, in two passes. Bound by memory
// traffic, for few classes by the launches.
#include <cmath>

#include "runtime/device/body_kernel.h"
#include "runtime/device/class_functions.h"
#include "runtime/device/cuda/class_sums.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/sums.h"

namespace meshwork::cuda {

namespace {

template <class Weights>
struct LogitStatistics {
  using Fold = folds::Added<ThreeSums>;
  const float *x, *m;
  float* z;
  std::int64_t width;
  Weights weight;
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
struct ProbabilityLoss {
  using Fold = folds::Added<TwoSums>;
  const float *p, *s;
  double* losses;  // by row
  float* u;
  std::int64_t width;
  Weights weight;
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

KernelPointer compile(const LogitStatisticsSpec& spec, const Context& context) {
  return with_weights(spec.at.target, [&]<class Weights>(std::type_identity<Weights>) {
    return make_kernel([here = spec.at, launcher = context.launcher](void* const* operands) {
      void* const* others = operands + here.behind_targets();
      reduce_rows(launcher, here.rows, here.columns,
                  LogitStatistics<Weights>{at(operands, 0), at(others, 0), at(others, 1),
                                           here.columns, Weights(here, operands)});
    });
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

KernelPointer compile(const ProbabilityLossSpec& spec, const Context& context) {
  // The workspace holds the losses by row, then their partial sums.
  const SumParts parts(spec.at.rows);
  return with_weights(spec.at.target, [&]<class Weights>(std::type_identity<Weights>) {
    return make_kernel(
        [=, here = spec.at, launcher = context.launcher](void* const* operands) {
          void* const* others = operands + here.behind_targets();
          double* losses = here.rows > 0 ? at<double>(others, 3) : nullptr;
          reduce_rows(
              launcher, here.rows, here.columns,
              ProbabilityLoss<Weights>{at(operands, 0), at(others, 0), losses, at(others, 2),
                                       here.columns, Weights(here, operands)});
          sum_all(launcher, parts, RowLoss{losses}, ScaledTo{at<double>(others, 1), 1.0},
                  losses + here.rows);
        },
        spec.at.rows * static_cast<std::int64_t>(sizeof(double)) + parts.bytes());
  });
}

}  // namespace

void add_classes(Kernels& kernels) {
  kernels.add<LogitStatisticsSpec, LogitLossSpec, ProbabilityLossSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
