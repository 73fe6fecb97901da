// Targets of a row of classes, as kernels see them: a weight for every column, and a right class.
//
// Whether targets are class numbers or weights is decided when a kernel is made. Each kernel is
// written once, on `weight(j)`, the target weight of column j of a row after smoothing.
#pragma once

#include <cstdint>

#include "runtime/device/class_functions.h"
#include "runtime/device/kernels/classes.h"

namespace meshwork::cpu {

/// The weights of a row when the target is a class number.
struct SparseWeights {
  using Target = std::int32_t;
  SparseWeights(const ClassColumns& at, const Target* targets, std::int64_t row)
      : column(targets[row] - at.first_class), smoothing(smoothing_of(at)) {}
  float operator()(std::int64_t j) const {
    return (j == column ? smoothing.keep : 0.0f) + smoothing.add;
  }
  std::int64_t column;
  Smoothing smoothing;
};

/// The weights of a row when they are given.
struct DenseWeights {
  using Target = float;
  DenseWeights(const ClassColumns& at, const Target* targets, std::int64_t row)
      : weights(targets + row * at.columns), smoothing(smoothing_of(at)) {}
  float operator()(std::int64_t j) const { return weights[j] * smoothing.keep + smoothing.add; }
  const float* weights;
  Smoothing smoothing;
};

[[nodiscard]] inline bool is_nan(float x) {
  return x != x;
}

}  // namespace meshwork::cpu
