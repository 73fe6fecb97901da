// Running means of gradients and of their squares, which several updates keep.
#pragma once

#include <cstdint>

#include "runtime/device/kernels/update.h"

namespace meshwork {

/// Blocks: g, w, m, v. m += (1 - beta_1)(g - m); v += (1 - beta_2)(g^2 - v).
struct MomentsForm {
  float *g, *w, *m, *v;
  float new_1, new_2, epsilon;

  MomentsForm(const auto& spec, const UpdateOperands& in)
      : g(in.block(0)),
        w(in.block(1)),
        m(in.block(2)),
        v(in.block(3)),
        new_1(static_cast<float>(1.0 - spec.beta_1)),
        new_2(static_cast<float>(1.0 - spec.beta_2)),
        epsilon(static_cast<float>(spec.epsilon)) {}

  struct Moments {
    float gradient, decayed, mean, square;
  };
  /// What element i becomes; the means are stored, the decayed w is not.
  [[nodiscard]] MESHWORK_HOST_DEVICE Moments follow(std::int64_t i, float factor,
                                                    float decay) const {
    const float gradient = g[i] * factor;
    const float decayed = w[i] - w[i] * decay;
    const float mean = m[i] + (gradient - m[i]) * new_1;
    const float square = v[i] + (gradient * gradient - v[i]) * new_2;
    m[i] = mean;
    v[i] = square;
    return {gradient, decayed, mean, square};
  }
};

}  // namespace meshwork
