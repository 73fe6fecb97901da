// The product by its definition, for what cuBLASLt has no algorithm for on this GPU: a thread an
// element of the result, its terms added in float32 in their order. Bound by memory latency, and
// many times slower than the library's.
#include <algorithm>
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

/// c (m, n) = op(a) (m, k) * op(b) (k, n), or plus that, for each repeat. Steps are in elements.
template <class Factor>
struct DirectProduct {
  const Factor *a, *b;
  float* c;
  std::int64_t rows, columns, terms;
  std::int64_t a_row, a_term, b_term, b_column, c_row;
  bool accumulate;
  int repeat_count;
  MatmulRepeat repeats[most_matmul_repeats];
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / columns % rows, column = i % columns;
    const Factor *first = a + row * a_row, *second = b + column * b_column;
    float* result = c + row * c_row + column;
    std::int64_t rest = i / columns / rows;
    for (int r = repeat_count; r-- > 0;) {
      const std::int64_t index = rest % repeats[r].count;
      rest /= repeats[r].count;
      first += index * repeats[r].a, second += index * repeats[r].b, result += index * repeats[r].c;
    }
    float sum = accumulate ? *result : 0.0f;
    for (std::int64_t l = 0; l < terms; ++l) {
      sum = fmaf(number(first[l * a_term]), number(second[l * b_term]), sum);
    }
    *result = sum;
  }
};

template <class Factor>
KernelPointer direct(const MatmulSpec& spec, const Context& context) {
  return make_kernel([spec, launcher = context.launcher](void* const* operands) {
    DirectProduct<Factor> product{at<Factor>(operands, 0),
                                  at<Factor>(operands, 1),
                                  at(operands, 2),
                                  spec.m,
                                  spec.n,
                                  spec.k,
                                  spec.transpose_a ? 1 : spec.a_stride(),
                                  spec.transpose_a ? spec.a_stride() : 1,
                                  spec.transpose_b ? 1 : spec.b_stride(),
                                  spec.transpose_b ? spec.b_stride() : 1,
                                  spec.c_stride(),
                                  spec.accumulate,
                                  static_cast<int>(spec.repeats.size()),
                                  {}};
    std::copy(spec.repeats.begin(), spec.repeats.end(), product.repeats);
    for_elements(launcher, spec.products() * spec.m * spec.n, product);
  });
}

}  // namespace

KernelPointer compile_direct(const MatmulSpec& spec, const Context& context) {
  return spec.narrow ? direct<std::uint16_t>(spec, context) : direct<float>(spec, context);
}

}  // namespace meshwork::cuda
