// Reductions over a middle dimension, as global pooling needs them, and their gradients.
//
// A thread a result where `inner` fills a warp, so that neighbours read neighbours; else a warp or
// a block a result, whose threads share the middle. Sums are formed in double. Bound by memory
// traffic.
#include <limits>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/functions.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/kernels/middle.h"

namespace meshwork::cuda {

namespace {

/// From here on results are a thread's each.
constexpr std::int64_t wide_inner = 32;

struct Extents {
  std::int64_t middle, inner;
  /// Offset of element `i` of result `result` = outer * inner + j.
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t element(std::int64_t result,
                                                          std::int64_t i) const {
    const std::int64_t outer = result / inner;
    return (outer * middle + i) * inner + (result - outer * inner);
  }
  /// The result that element `e` belongs to.
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t result(std::int64_t e) const {
    const std::int64_t row = e / inner;
    return row / middle * inner + (e - row * inner);
  }
};

/// A Reduction (launch.h) as one thread does it.
template <class Reduction>
struct InOneThread {
  Reduction reduction;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t row) const {
    typename Reduction::Value value = reduction.identity();
    const std::int64_t columns = reduction.columns(row);
    for (std::int64_t i = 0; i < columns; ++i) {
      value = reduction.combine(value, reduction.term(row, i));
    }
    reduction.finish(row, value);
  }
};

template <class Reduction>
void reduce_middle(const Launcher& launcher, std::int64_t outer, const Extents& extents,
                   const Reduction& reduction) {
  if (extents.inner >= wide_inner) {
    for_elements(launcher, outer * extents.inner, InOneThread<Reduction>{reduction});
  } else {
    reduce_rows(launcher, outer * extents.inner, extents.middle, reduction);
  }
}

struct Sum {
  using Value = double;
  const float* x;
  float* y;
  Extents extents;
  double scale;
  [[nodiscard]] MESHWORK_HOST_DEVICE double identity() const { return 0; }
  [[nodiscard]] MESHWORK_HOST_DEVICE double combine(double a, double b) const { return a + b; }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const {
    return extents.middle;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(std::int64_t result, std::int64_t i) const {
    return static_cast<double>(x[extents.element(result, i)]);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t result, double sum) const {
    y[result] = static_cast<float>(scale * sum);
  }
};

struct Maximum {
  using Value = float;
  const float* x;
  float* m;
  Extents extents;
  [[nodiscard]] MESHWORK_HOST_DEVICE float identity() const {
    return -std::numeric_limits<float>::infinity();
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE float combine(float a, float b) const {
    return maximum_or_nan(a, b);
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const {
    return extents.middle;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE float term(std::int64_t result, std::int64_t i) const {
    return x[extents.element(result, i)];
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t result, float value) const { m[result] = value; }
};

struct Ties {
  using Value = std::int64_t;
  const float *x, *m;
  float* t;
  Extents extents;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t identity() const { return 0; }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t combine(std::int64_t a, std::int64_t b) const {
    return a + b;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const {
    return extents.middle;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t term(std::int64_t result, std::int64_t i) const {
    return is_maximum(x[extents.element(result, i)], m[result]) ? 1 : 0;
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t result, std::int64_t count) const {
    t[result] = static_cast<float>(count);
  }
};

struct Broadcast {
  const float* x;
  float* y;
  Extents extents;
  float scale;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t e) const {
    y[e] = scale * x[extents.result(e)];
  }
};

struct MaximumGradient {
  const float *x, *m, *t, *dy;
  float* dx;
  Extents extents;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t e) const {
    const std::int64_t result = extents.result(e);
    dx[e] = is_maximum(x[e], m[result]) ? dy[result] / t[result] : 0.0f;
  }
};

KernelPointer compile(const MiddleSumSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    const Extents extents{spec.middle, spec.inner};
    reduce_middle(launcher, spec.outer, extents,
                  Sum{at(operands, 0), at(operands, 1), extents, static_cast<double>(spec.scale)});
  });
}

KernelPointer compile(const MiddleBroadcastSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(
        launcher, spec.outer * spec.middle * spec.inner,
        Broadcast{at(operands, 0), at(operands, 1), {spec.middle, spec.inner}, spec.scale});
  });
}

KernelPointer compile(const MiddleMaximumSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    const Extents extents{spec.middle, spec.inner};
    reduce_middle(launcher, spec.outer, extents,
                  Maximum{at(operands, 0), at(operands, 1), extents});
  });
}

KernelPointer compile(const MiddleTiesSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    const Extents extents{spec.middle, spec.inner};
    reduce_middle(launcher, spec.outer, extents,
                  Ties{at(operands, 0), at(operands, 1), at(operands, 2), extents});
  });
}

KernelPointer compile(const MiddleMaximumGradientSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, spec.outer * spec.middle * spec.inner,
                 MaximumGradient{at(operands, 0),
                                 at(operands, 1),
                                 at(operands, 2),
                                 at(operands, 3),
                                 at(operands, 4),
                                 {spec.middle, spec.inner}});
  });
}

}  // namespace

void add_middle(Kernels& kernels) {
  kernels.add<MiddleSumSpec, MiddleBroadcastSpec, MiddleMaximumSpec, MiddleTiesSpec,
              MiddleMaximumGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
