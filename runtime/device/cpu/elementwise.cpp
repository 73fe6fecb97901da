// Sums of tensors, and of scalars. The other elementwise kernels are bodies (bodies/elementwise.h).
#include <algorithm>

#include "runtime/device/cpu/body_loops.h"
#include "runtime/device/element_functions.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/norms.h"

namespace meshwork::cpu {

namespace {

KernelPointer compile(const SumSpec& spec, const Context& context) {
  const int inputs = spec.inputs;
  if (inputs == 1) return bodies::map_one<Loops>(context, spec.count, bodies::Linear{});
  return make_kernel([=, threads = context.threads](void* const* operands) {
    float* y = at(operands, inputs);
    for_ranges(threads, spec.count, 4 * (inputs + 1), [=](std::int64_t begin, std::int64_t end) {
      // Stretches that stay in the first cache from one input to the next.
      constexpr std::int64_t stretch = 2048;
      for (std::int64_t from = begin; from < end; from += stretch) {
        const std::int64_t to = std::min(from + stretch, end);
        const float* a = at(operands, 0);
        for (int input = 1; input < inputs; ++input) {
          const float* b = at(operands, input);
#pragma omp simd
          for (std::int64_t i = from; i < to; ++i) y[i] = a[i] + b[i];
          a = y;
        }
      }
    });
  });
}

KernelPointer compile(const WeightedSumSpec& spec, const Context&) {
  return make_kernel([factors = spec.factors](void* const* operands) {
    const double* x = at<const double>(operands, 0);
    double sum = 0;
    for (std::size_t i = 0; i < factors.size(); ++i) sum += factors[i] * x[i];
    *at<double>(operands, 1) = sum;
  });
}

}  // namespace

void add_elementwise(Kernels& kernels) {
  kernels.add<SumSpec, WeightedSumSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu
