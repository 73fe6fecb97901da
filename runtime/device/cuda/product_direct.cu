// The product by its definition, for what cuBLASLt has no algorithm for on this GPU: a thread an
// element of the result, its terms added in float32 in their order. Bound by memory latency, and
// many times slower than the library's.
#include <cmath>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/narrowing.h"

namespace meshwork::cuda {

namespace {

[[nodiscard]] MESHWORK_HOST_DEVICE inline float number(float x) {
  return x;
}
[[nodiscard]] MESHWORK_HOST_DEVICE inline float number(std::uint16_t x) {
  return widened(x);
}

/// c (m, n) = op(a) (m, k) * op(b) (k, n), or plus that. Steps are in elements.
template <class Factor>
struct DirectProduct {
  const Factor *a, *b;
  float* c;
  std::int64_t columns, terms;
  std::int64_t a_row, a_term, b_term, b_column;
  bool accumulate;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / columns, column = i % columns;
    float sum = accumulate ? c[i] : 0.0f;
    for (std::int64_t l = 0; l < terms; ++l) {
      sum =
          fmaf(number(a[row * a_row + l * a_term]), number(b[l * b_term + column * b_column]), sum);
    }
    c[i] = sum;
  }
};

template <class Factor>
KernelPointer direct(const MatmulSpec& spec, const Context& context) {
  return make_kernel([spec, launcher = context.launcher](void* const* operands) {
    for_elements(
        launcher, spec.m * spec.n,
        DirectProduct<Factor>{at<Factor>(operands, 0), at<Factor>(operands, 1), at(operands, 2),
                              spec.n, spec.k, spec.transpose_a ? 1 : spec.k,
                              spec.transpose_a ? spec.m : 1, spec.transpose_b ? 1 : spec.n,
                              spec.transpose_b ? spec.k : 1, spec.accumulate});
  });
}

}  // namespace

KernelPointer compile_direct(const MatmulSpec& spec, const Context& context) {
  return spec.narrow ? direct<std::uint16_t>(spec, context) : direct<float>(spec, context);
}

}  // namespace meshwork::cuda
