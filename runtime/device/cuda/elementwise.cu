// Rounding to bfloat16; sums of tensors, a thread an element; sums of scalars. Bound by memory
// traffic, the last by its launch. The other elementwise kernels are bodies (bodies/elementwise.h).
#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/sums.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/narrowing.h"

namespace meshwork::cuda {

namespace {

struct Narrow {
  const float* x;
  std::uint16_t* y;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = narrowed(x[i]); }
};

/// Up to this many tensors are added in one launch.
constexpr int sum_terms = 8;

struct Sum {
  const float* x[sum_terms];
  int terms;
  float* y;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    float sum = x[0][i];
    for (int term = 1; term < terms; ++term) sum += x[term][i];
    y[i] = sum;
  }
};

struct Weighted {
  const double *factors, *x;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t i) const { return factors[i] * x[i]; }
};

KernelPointer compile(const NarrowSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, spec.count, Narrow{at(operands, 0), at<std::uint16_t>(operands, 1)});
  });
}

KernelPointer compile(const SumSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    // The first eight, then the sum so far with seven more at a time: the order stays.
    float* y = at(operands, spec.inputs);
    for (int done = 0; done < spec.inputs;) {
      Sum sum{{}, 0, y};
      if (done > 0) sum.x[sum.terms++] = y;
      while (sum.terms < sum_terms && done < spec.inputs) sum.x[sum.terms++] = at(operands, done++);
      for_elements(launcher, spec.count, sum);
    }
  });
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

}  // namespace

void add_elementwise(Kernels& kernels) {
  kernels.add<NarrowSpec, SumSpec, WeightedSumSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
