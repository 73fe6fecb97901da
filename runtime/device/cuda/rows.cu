// Softmax of rows that are whole, and its gradient. Sums are formed in double.
//
// A warp takes a row of up to 512 columns, a block a longer one. Bound by memory traffic; of ten
// classes by the launch.
#include <cmath>

#include "runtime/device/bodies/rows.h"
#include "runtime/device/cuda/body_loops.h"

namespace meshwork::cuda {

namespace {

/// Several values of a row, one after the other: softmax, and its gradient.
struct Softmax {
  const float* x;
  float* y;
  std::int64_t width;
  template <class Team>
  MESHWORK_DEVICE void operator()(std::int64_t row, const Team& team) const {
    const float* from = x + row * width;
    float* to = y + row * width;
    const float m =
        team.template reduce<folds::Maximum>(width, [&](std::int64_t j) { return from[j]; });
    const double sum = team.template reduce<folds::Sum>(width, [&](std::int64_t j) {
      to[j] = expf(from[j] - m);
      return static_cast<double>(to[j]);
    });
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
    const float r = static_cast<float>(team.template reduce<folds::Sum>(width, [&](std::int64_t j) {
      return static_cast<double>(y[first + j]) * static_cast<double>(dy[first + j]);
    }));
    team.each(width, [&](std::int64_t j) { dx[first + j] = y[first + j] * (dy[first + j] - r); });
  }
};

KernelPointer compile(const SoftmaxSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_teams(launcher, spec.rows, spec.columns,
              Softmax{at(operands, 0), at(operands, 1), spec.columns});
  });
}

KernelPointer compile(const SoftmaxGradientSpec& spec, const Context& context) {
  if (!spec.whole) return bodies::softmax_gradient<Loops>(spec, context);
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_teams(
        launcher, spec.rows, spec.columns,
        WholeSoftmaxGradient{at(operands, 0), at(operands, 1), at(operands, 2), spec.columns});
  });
}

}  // namespace

void add_rows(Kernels& kernels) {
  kernels.add<SoftmaxSpec, SoftmaxGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
