// Kernels whose bodies all devices share, a thread an element, blocks of 256 over the whole GPU,
// sums in two passes of up to 1024 blocks and of one; rounding to bfloat16; sums of tensors and of
// scalars. Bound by memory traffic, those of few values by their launch.
#include "runtime/device/bodies/elementwise.h"

#include "runtime/device/bodies/losses.h"
#include "runtime/device/bodies/scalars.h"
#include "runtime/device/cuda/functions.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda/sums.h"
#include "runtime/device/narrowing.h"

namespace meshwork::cuda {

namespace {

template <class Body>
struct InGrid {
  std::int64_t columns;
  Body body;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { body(i / columns, i % columns, i); }
};

struct Loops {
  using Math = cuda::Math;

  static KernelPointer elements(const Context& context, std::int64_t count, std::int64_t /*bytes*/,
                                auto make) {
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      for_elements(launcher, count, make(operands));
    });
  }
  static KernelPointer grid(const Context& context, std::int64_t rows, std::int64_t columns,
                            std::int64_t /*bytes*/, auto make) {
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      for_elements(launcher, rows * columns,
                   InGrid<decltype(make(operands))>{columns, make(operands)});
    });
  }
  static KernelPointer sum(const Context& context, std::int64_t count, std::int64_t /*bytes*/,
                           int operand_count, double scale, auto make) {
    const SumParts parts(count);
    return make_kernel(
        [=, launcher = context.launcher](void* const* operands) {
          sum_all(launcher, parts, make(operands),
                  ScaledTo{at<double>(operands, operand_count - 1), scale},
                  parts.parts > 1 ? at<double>(operands, operand_count) : nullptr);
        },
        parts.bytes());
  }
};

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
  bodies::add_elementwise<Loops>(kernels);
  bodies::add_losses<Loops>(kernels);
  bodies::add_scalars<Loops>(kernels);
  kernels.add<NarrowSpec, SumSpec, WeightedSumSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
