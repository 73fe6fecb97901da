// Targets of rows of classes, as kernels see them: a weight for every column, and a right class.
//
// Whether targets are class numbers or weights is decided when a kernel is made. Each function is
// written once, on `weight(row, j)`, the target weight of a column after smoothing.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/device/body_kernel.h"
#include "runtime/device/class_functions.h"
#include "runtime/device/cuda/functions.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/host_device.h"
#include "runtime/device/kernels/classes.h"

namespace meshwork::cuda {

/// The weights when targets are class numbers.
struct SparseWeights {
  static constexpr bool given = false;
  const std::int32_t* targets;
  std::int64_t first_class, columns;
  Smoothing smoothing;
  MESHWORK_HOST_DEVICE float operator()(std::int64_t row, std::int64_t j) const {
    return (j == targets[row] - first_class ? smoothing.keep : 0.0f) + smoothing.add;
  }
};
/// The weights when they are given.
struct DenseWeights {
  static constexpr bool given = true;
  const float* targets;
  std::int64_t first_class, columns;
  Smoothing smoothing;
  MESHWORK_HOST_DEVICE float operator()(std::int64_t row, std::int64_t j) const {
    return targets[row * columns + j] * smoothing.keep + smoothing.add;
  }
};

/// A kernel that calls body(operands, weights). Targets: operand 1.
template <class Body>
KernelPointer with_weights(const ClassColumns& columns, Body body, std::int64_t workspace = 0) {
  const Smoothing smoothing = smoothing_of(columns);
  if (columns.target == TargetKind::sparse) {
    return make_kernel(
        [=](void* const* operands) {
          body(operands, SparseWeights{at<const std::int32_t>(operands, 1), columns.first_class,
                                       columns.columns, smoothing});
        },
        workspace);
  }
  return make_kernel(
      [=](void* const* operands) {
        body(operands,
             DenseWeights{at(operands, 1), columns.first_class, columns.columns, smoothing});
      },
      workspace);
}

// What one row gives.
struct ThreeSums {
  double exponentials, weighted, weights;
};
[[nodiscard]] MESHWORK_HOST_DEVICE inline ThreeSums operator+(const ThreeSums& a,
                                                              const ThreeSums& b) {
  return {a.exponentials + b.exponentials, a.weighted + b.weighted, a.weights + b.weights};
}
struct TwoSums {
  double loss, open;
};
[[nodiscard]] MESHWORK_HOST_DEVICE inline TwoSums operator+(const TwoSums& a, const TwoSums& b) {
  return {a.loss + b.loss, a.open + b.open};
}

/// Of a logit that is `below` the row's maximum and has target weight t. A class without weight
/// does not count, also where its logit is -infinity.
[[nodiscard]] MESHWORK_HOST_DEVICE inline ThreeSums logit_terms(float below, float t) {
  return {static_cast<double>(expf(below)),
          t == 0.0f ? 0.0 : static_cast<double>(t) * static_cast<double>(below),
          static_cast<double>(t)};
}
/// Of a probability q with target weight t.
[[nodiscard]] MESHWORK_HOST_DEVICE inline TwoSums probability_terms(float q, float t) {
  return {static_cast<double>(-t * logf(clip(q))), is_clipped(q) ? 0.0 : static_cast<double>(t)};
}

}  // namespace meshwork::cuda
