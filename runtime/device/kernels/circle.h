// Circle loss: of a batch's samples, compared with each other.
//
// s (samples, samples) are cosines, and label i is that of sample i. Distance d = max(1 - s, 0).
// Pairs of one label attract each other, others repel:
//   attraction  a = -gamma max(margin + d, 0) (margin - d)
//   repulsion   r = gamma max(1 + margin - d, 0) (1 - margin - d)
// The loss of sample i is softplus(log sum_j exp(a_ij) + log sum_j exp(r_ij)), 0 for one that lacks
// either kind of pair. The batch's is the mean over those whose loss is above 0, as in Keras.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/device/host_device.h"
#include "runtime/device/kernels/page.h"

namespace meshwork {

struct CircleFunction {
  float gamma = 80, margin = 0.4f;
  bool remove_diagonal = true;  // a sample does not attract itself

  /// What a pair of cosine s adds, before the exponential, and its derivative by s.
  struct Pair {
    float value, slope;
  };
  [[nodiscard]] MESHWORK_HOST_DEVICE Pair pair(float s, bool attracts) const {
    // A NaN stays one.
    const float d = 1 - s < 0 ? 0.0f : 1 - s;
    const float away = attracts ? margin + d : 1 + margin - d;
    const float weight = away < 0 ? 0.0f : away;
    const float rest = attracts ? d - margin : 1 - margin - d;
    // By d, of gamma weight rest; d falls as s grows.
    const float by_d =
        attracts ? weight + (away < 0 ? 0.0f : rest) : -weight - (away < 0 ? 0.0f : rest);
    return {gamma * weight * rest, s > 1 ? 0.0f : -gamma * by_d};
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE bool counts(std::int64_t i, std::int64_t j) const {
    return i != j || !remove_diagonal;
  }
};

/// l (samples, 2) = the logarithms of the sums of attractions and of repulsions, -infinity for
/// none. Operands: s, labels (int32), l.
struct CircleSumsSpec {
  std::int64_t samples = 0;
  CircleFunction function;
  [[nodiscard]] std::string text() const { return spec::sized("circle sums", {samples}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, samples * samples); }
};
/// share (float32 scalar) = 1 / (samples whose loss is above 0); loss (float64 scalar) = samples *
/// share * the sum of the samples' losses times their weights. Operands: l, [weights], share, loss.
struct CircleLossSpec {
  std::int64_t samples = 0;
  bool weighted = false;
  [[nodiscard]] std::string text() const {
    return spec::sized("circle loss", {samples}) + spec::words({{weighted, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, samples); }
};
/// s becomes scale * the gradient of the loss's mean by s. Operands: labels, l, [weights], share,
/// s.
struct CircleGradientSpec {
  std::int64_t samples = 0;
  CircleFunction function;
  float scale = 1;
  bool weighted = false;
  [[nodiscard]] std::string text() const {
    return spec::sized("circle gradient", {samples}) + spec::words({{weighted, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, samples * samples); }
};

}  // namespace meshwork
