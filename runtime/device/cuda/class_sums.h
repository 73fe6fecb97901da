// What a row of classes adds to the sums behind its cross-entropy.
#pragma once

#include "runtime/device/class_functions.h"
#include "runtime/device/host_device.h"

namespace meshwork::cuda {

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
