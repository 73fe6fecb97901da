// Targets of a row of classes, as kernels see them: a weight for every column, and a right class.
//
// Whether targets are class numbers or weights is decided when a kernel is made. Each kernel is
// written once, on `weight(j)`, the target weight of column j of a row after smoothing.
#pragma once

#include <cstdint>

#include "runtime/device/kernels/classes.h"

namespace meshwork::cpu {

constexpr float clip_low = 1e-7f;
constexpr float clip_high = 1.0f - 1e-7f;

/// The class that a sparse target names; -1 for what cannot be one.
[[nodiscard]] inline std::int64_t class_number(float target) {
  constexpr float beyond = 1e15f;
  return target >= 0.0f && target < beyond ? static_cast<std::int64_t>(target) : -1;
}

/// t (1 - s) + s / classes.
struct Smoothing {
  float keep, add;
  explicit Smoothing(const ClassColumns& at)
      : keep(1.0f - at.smoothing),
        add(at.smoothing == 0.0f ? 0.0f
                                 : static_cast<float>(static_cast<double>(at.smoothing) /
                                                      static_cast<double>(at.classes))) {}
};

/// The weights of a row when the target is a class number.
struct SparseWeights {
  SparseWeights(const ClassColumns& at, const float* targets, std::int64_t row)
      : column(class_number(targets[row]) - at.first_class), smoothing(at) {}
  float operator()(std::int64_t j) const {
    return (j == column ? smoothing.keep : 0.0f) + smoothing.add;
  }
  std::int64_t column;
  Smoothing smoothing;
};

/// The weights of a row when they are given.
struct DenseWeights {
  DenseWeights(const ClassColumns& at, const float* targets, std::int64_t row)
      : weights(targets + row * at.columns), smoothing(at) {}
  float operator()(std::int64_t j) const { return weights[j] * smoothing.keep + smoothing.add; }
  const float* weights;
  Smoothing smoothing;
};

[[nodiscard]] inline bool is_nan(float x) {
  return x != x;
}

// A NaN is not clipped, so that it shows.
[[nodiscard]] inline bool is_clipped(float q) {
  return q < clip_low || q > clip_high;
}

[[nodiscard]] inline float clip(float q) {
  return q < clip_low ? clip_low : (q > clip_high ? clip_high : q);
}

}  // namespace meshwork::cpu
