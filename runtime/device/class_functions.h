// What targets of classes mean, and what cross-entropies and rankings make of one class: written
// once for the kernels of every device.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/device/host_device.h"
#include "runtime/device/kernels/classes.h"

namespace meshwork {

constexpr float clip_low = 1e-7f;
constexpr float clip_high = 1.0f - 1e-7f;

/// t (1 - s) + s / classes = t keep + add.
struct Smoothing {
  float keep, add;
};
[[nodiscard]] inline Smoothing smoothing_of(const ClassColumns& at) {
  return {1.0f - at.smoothing, at.smoothing == 0.0f
                                   ? 0.0f
                                   : static_cast<float>(static_cast<double>(at.smoothing) /
                                                        static_cast<double>(at.classes))};
}

// A NaN is not clipped, so that it shows.
[[nodiscard]] MESHWORK_HOST_DEVICE inline bool is_clipped(float q) {
  return q < clip_low || q > clip_high;
}
[[nodiscard]] MESHWORK_HOST_DEVICE inline float clip(float q) {
  return q < clip_low ? clip_low : (q > clip_high ? clip_high : q);
}

/// The cross-entropy of a row from its sums (LogitStatisticsSpec).
[[nodiscard]] MESHWORK_HOST_DEVICE inline double logit_loss(float exponentials, float weighted,
                                                            float weights) {
  return log(static_cast<double>(exponentials)) * static_cast<double>(weights) -
         static_cast<double>(weighted);
}

/// Whether class j comes before the target class, whose score is `value`; it is none itself.
/// Without branches, for loops over many at once.
template <class Index>
[[nodiscard]] MESHWORK_HOST_DEVICE bool is_ahead(float score, float value, Index j, Index target) {
  const bool before =
      (score != score) | (value != value) | (score > value) | ((score == value) & (j < target));
  return before & (j != target);
}

}  // namespace meshwork
