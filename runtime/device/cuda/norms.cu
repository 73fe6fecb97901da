// Norms of gradients and what follows from them: sums of powers, weighted sums of scalars, the
// factor of clipping. Sums in double, in two passes; bound by memory traffic, scalars by their
// launch.
#include <cmath>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/sums.h"
#include "runtime/device/kernels/norms.h"

namespace meshwork::cuda {

namespace {

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
struct Weighted {
  const double *factors, *x;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t i) const { return factors[i] * x[i]; }
};

template <class Term>
KernelPointer power_sum(const Context& context, std::int64_t count) {
  const SumParts parts(count);
  return make_kernel(
      [=, launcher = context.launcher](void* const* operands) {
        sum_all(launcher, parts, Term{at(operands, 0)}, ScaledTo{at<double>(operands, 1), 1.0},
                parts.parts > 1 ? at<double>(operands, 2) : nullptr);
      },
      parts.bytes());
}

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

KernelPointer compile(const PowerSumSpec& spec, const Context& context) {
  return spec.power == 1 ? power_sum<Magnitude>(context, spec.count)
                         : power_sum<Square>(context, spec.count);
}

KernelPointer compile(const WeightedSumSpec& spec, const Context& context) {
  const auto count = static_cast<std::int64_t>(spec.factors.size());
  const auto factors =
      context.upload(spec.factors.data(), count * static_cast<std::int64_t>(sizeof(double)));
  const SumParts parts(count);
  return make_kernel(
      [=, launcher = context.launcher](void* const* operands) {
        sum_all(launcher, parts,
                Weighted{static_cast<const double*>(factors->data()), at<double>(operands, 0)},
                ScaledTo{at<double>(operands, 1), 1.0},
                parts.parts > 1 ? at<double>(operands, 2) : nullptr);
      },
      parts.bytes());
}

KernelPointer compile(const ClipFactorSpec& spec, const Context& context) {
  return make_kernel([clip = static_cast<double>(spec.clip), global = spec.global,
                      launcher = context.launcher](void* const* operands) {
    for_elements(launcher, 1,
                 ClipFactor{at<const double>(operands, 0), at(operands, 1), clip, global});
  });
}

}  // namespace

void add_norms(Kernels& kernels) {
  kernels.add<PowerSumSpec, WeightedSumSpec, ClipFactorSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
