// How the terms of a reduction become one value, for the loops of any device.
//
// A fold has the type `Value` of that, `identity()` for no terms, and `combine(so far, next)`.
#pragma once

#include <cstdint>
#include <limits>

#include "runtime/device/host_device.h"

namespace meshwork {

[[nodiscard]] MESHWORK_HOST_DEVICE inline bool is_nan(float x) {
  return x != x;
}
/// The larger one. A NaN is taken when it comes, and then stays, as nothing is greater than it.
[[nodiscard]] MESHWORK_HOST_DEVICE inline float greater_or_nan(float value, float best) {
  return value > best || is_nan(value) ? value : best;
}
/// Whether x is the maximum m; NaN is NaN.
[[nodiscard]] MESHWORK_HOST_DEVICE inline bool is_maximum(float x, float m) {
  return x == m || (is_nan(x) && is_nan(m));
}

/// Sums of two terms.
struct PairOfSums {
  double first, second;
};
[[nodiscard]] MESHWORK_HOST_DEVICE inline PairOfSums operator+(const PairOfSums& a,
                                                               const PairOfSums& b) {
  return {a.first + b.first, a.second + b.second};
}

namespace folds {

template <class Number>
struct Added {
  using Value = Number;
  [[nodiscard]] MESHWORK_HOST_DEVICE static Number identity() { return {}; }
  [[nodiscard]] MESHWORK_HOST_DEVICE static Number combine(const Number& a, const Number& b) {
    return a + b;
  }
};
using Sum = Added<double>;
struct Maximum {
  using Value = float;
  [[nodiscard]] MESHWORK_HOST_DEVICE static float identity() {
    return -std::numeric_limits<float>::infinity();
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE static float combine(float best, float value) {
    return greater_or_nan(value, best);
  }
};
/// The lowest column of those of which the term is true; more than there are for none.
struct First {
  using Value = std::int64_t;
  [[nodiscard]] MESHWORK_HOST_DEVICE static std::int64_t identity() {
    return std::numeric_limits<std::int64_t>::max();
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE static std::int64_t combine(std::int64_t a, std::int64_t b) {
    return b < a ? b : a;
  }
};

}  // namespace folds
}  // namespace meshwork
