// Norms of gradients and what follows from them: sums of powers, weighted sums of scalars, the
// factor of clipping.
#include <algorithm>
#include <cmath>

#include "collectives/error.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/kernels/norms.h"

namespace meshwork::cpu {

namespace {

KernelPointer compile(const PowerSumSpec& spec, const Context& context) {
  const auto make = [&](auto term) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const float* x = at(operands, 0);
      const auto part_sum = [=](std::int64_t begin, std::int64_t end) {
        return lane_sum(begin, end, [=](std::int64_t i) { return term(x[i]); });
      };
      *at<double>(operands, 1) = fixed_sum(threads, spec.count, 4, part_sum);
    });
  };
  switch (spec.power) {
    case 1:
      return make([](float x) { return std::fabs(x); });
    case 2:
      return make([](float x) { return static_cast<double>(x) * static_cast<double>(x); });
    default:
      internal_error(fmt::format("a sum of powers {}; there are 1 and 2", spec.power));
  }
}

KernelPointer compile(const WeightedSumSpec& spec, const Context&) {
  return make_kernel([factors = spec.factors](void* const* operands) {
    const double* x = at<const double>(operands, 0);
    double sum = 0;
    for (std::size_t i = 0; i < factors.size(); ++i) sum += factors[i] * x[i];
    *at<double>(operands, 1) = sum;
  });
}

KernelPointer compile(const ClipFactorSpec& spec, const Context&) {
  return make_kernel(
      [clip = static_cast<double>(spec.clip), global = spec.global](void* const* operands) {
        const double norm = std::sqrt(*at<const double>(operands, 0));
        // Both orders of arguments let a NaN through.
        const double factor =
            global ? clip * std::min(1.0 / norm, 1.0 / clip) : clip / std::max(norm, clip);
        *at(operands, 1) = static_cast<float>(factor);
      });
}

}  // namespace

void add_norms(Kernels& kernels) {
  kernels.add<PowerSumSpec, WeightedSumSpec, ClipFactorSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu
