// Kernels on rows: maxima, sums, and the parts of softmax. Sums are formed in double.
//
// A warp reduces a row of up to 512 columns, a block a longer one; what does not reduce is a thread
// an element. Bound by memory traffic; a softmax over ten classes by the launch.
#include <limits>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/functions.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/kernels/rows.h"

namespace meshwork::cuda {

namespace {

struct RowMaximum {
  using Value = float;
  const float* x;
  float* m;
  std::int64_t width;
  [[nodiscard]] MESHWORK_HOST_DEVICE float identity() const {
    return -std::numeric_limits<float>::infinity();
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE float combine(float a, float b) const {
    return maximum_or_nan(a, b);
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return width; }
  [[nodiscard]] MESHWORK_HOST_DEVICE float term(std::int64_t row, std::int64_t j) const {
    return x[row * width + j];
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, float value) const { m[row] = value; }
};

/// s (rows) = sum over columns of Term's operator()(row, offset of the element).
template <class Term>
struct SumOfRow {
  using Value = double;
  Term add;
  float* s;
  std::int64_t width;
  [[nodiscard]] MESHWORK_HOST_DEVICE double identity() const { return 0; }
  [[nodiscard]] MESHWORK_HOST_DEVICE double combine(double a, double b) const { return a + b; }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const { return width; }
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(std::int64_t row, std::int64_t j) const {
    return add(row, row * width + j);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, double sum) const {
    s[row] = static_cast<float>(sum);
  }
};

struct Element {
  const float* x;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t, std::int64_t i) const {
    return static_cast<double>(x[i]);
  }
};
struct Product {
  const float *a, *b;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t, std::int64_t i) const {
    return static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
};
/// Writes the exponential that it adds.
struct Exponential {
  const float *x, *m;
  float* e;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t row, std::int64_t i) const {
    const float value = expf(x[i] - m[row]);
    e[i] = value;
    return static_cast<double>(value);
  }
};

struct Divide {
  const float *e, *s;
  float* y;
  std::int64_t width;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = e[i] / s[i / width]; }
};
struct SoftmaxGradient {
  const float *y, *dy, *r;
  float* dx;
  std::int64_t width;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    dx[i] = y[i] * (dy[i] - r[i / width]);
  }
};

/// Several values of a row, one after the other: softmax, and its gradient.
struct Softmax {
  const float* x;
  float* y;
  std::int64_t width;
  template <class Team>
  MESHWORK_DEVICE void operator()(std::int64_t row, const Team& team) const {
    const float* from = x + row * width;
    float* to = y + row * width;
    const float m = team.reduce(
        width, -std::numeric_limits<float>::infinity(), [&](std::int64_t j) { return from[j]; },
        [](float a, float b) { return maximum_or_nan(a, b); });
    const double sum = team.reduce(
        width, 0.0,
        [&](std::int64_t j) {
          to[j] = expf(from[j] - m);
          return static_cast<double>(to[j]);
        },
        [](double a, double b) { return a + b; });
    team.each(width, [&](std::int64_t j) { to[j] /= static_cast<float>(sum); });
  }
};
struct WholeSoftmaxGradient {
  const float *y, *dy;
  float* dx;
  std::int64_t width;
  template <class Team>
  MESHWORK_DEVICE void operator()(std::int64_t row, const Team& team) const {
    const std::int64_t first = row * width;
    const Product product{y + first, dy + first};
    const float r = static_cast<float>(team.reduce(
        width, 0.0, [&](std::int64_t j) { return product(row, j); },
        [](double a, double b) { return a + b; }));
    team.each(width, [&](std::int64_t j) { dx[first + j] = y[first + j] * (dy[first + j] - r); });
  }
};

template <class Term>
void sum_rows(const Launcher& launcher, std::int64_t rows, std::int64_t columns, const Term& term,
              float* s) {
  reduce_rows(launcher, rows, columns, SumOfRow<Term>{term, s, columns});
}

KernelPointer compile(const RowMaximumSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    reduce_rows(launcher, spec.rows, spec.columns,
                RowMaximum{at(operands, 0), at(operands, 1), spec.columns});
  });
}

KernelPointer compile(const RowExponentialSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    sum_rows(launcher, spec.rows, spec.columns,
             Exponential{at(operands, 0), at(operands, 1), at(operands, 2)}, at(operands, 3));
  });
}

KernelPointer compile(const RowDivideSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, spec.rows * spec.columns,
                 Divide{at(operands, 0), at(operands, 1), at(operands, 2), spec.columns});
  });
}

KernelPointer compile(const RowSumSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    sum_rows(launcher, spec.rows, spec.columns, Element{at(operands, 0)}, at(operands, 1));
  });
}

KernelPointer compile(const RowDotSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    sum_rows(launcher, spec.rows, spec.columns, Product{at(operands, 0), at(operands, 1)},
             at(operands, 2));
  });
}

KernelPointer compile(const SoftmaxSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_teams(launcher, spec.rows, spec.columns,
              Softmax{at(operands, 0), at(operands, 1), spec.columns});
  });
}

KernelPointer compile(const SoftmaxGradientSpec& spec, const Context& context) {
  if (spec.whole) {
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      for_teams(
          launcher, spec.rows, spec.columns,
          WholeSoftmaxGradient{at(operands, 0), at(operands, 1), at(operands, 2), spec.columns});
    });
  }
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, spec.rows * spec.columns,
                 SoftmaxGradient{at(operands, 0), at(operands, 1), at(operands, 2), at(operands, 3),
                                 spec.columns});
  });
}

}  // namespace

void add_rows(Kernels& kernels) {
  kernels.add<RowMaximumSpec, RowExponentialSpec, RowDivideSpec, RowSumSpec, RowDotSpec,
              SoftmaxSpec, SoftmaxGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
